"""Derivatives of functions of published packages, called unmodified: `python -m benchmarks.packages`.

Each file in `cases` calls one package as its users do.  Derivatives are compared with extrapolated differences.
"""
