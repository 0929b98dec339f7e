"""Runs functions with the names of NumPy and others bound to differentiable versions."""
