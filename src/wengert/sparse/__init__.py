"""Sparse derivatives: where they may be other than zero, colours of their columns and rows, and their nonzeros."""
