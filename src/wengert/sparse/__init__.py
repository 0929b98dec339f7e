"""Sparse derivatives: patterns, colourings and the recovery of nonzeros from few products."""
