# cython: language_level=3
"""The numbers of opcodes.pxd, for Python."""
