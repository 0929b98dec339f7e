"""Runs functions with the names of NumPy and other libraries bound to differentiable versions."""
