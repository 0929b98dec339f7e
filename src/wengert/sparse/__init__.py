"""Sparse derivatives: patterns of where they may be other than zero."""
