# cython: language_level=3
"""Exposes the opcodes of opcodes.pxd to Python."""
