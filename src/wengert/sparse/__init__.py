"""Sparse derivatives: detection of sparsity patterns, colouring, and recovery of nonzeros."""
