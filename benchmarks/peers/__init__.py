"""Derivatives of the same functions by wengert and by other packages, side by side.

`rows` lists what is differentiated, `packages` how each package does it, `rewrites` the functions that a package
cannot take as they are written; `cell` measures one package on one row, in a process of its own; `table` makes
Markdown of the figures; `__main__` does all of it.
"""
