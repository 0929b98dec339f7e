"""Sparse matrices and solvers."""
