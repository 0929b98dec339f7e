"""Derivatives of the same functions by wengert and by other packages, side by side.

`rows` lists the functions, `packages` defines how each package differentiates, `rewrites` has versions of functions
for packages that cannot differentiate the originals; `cell` measures one package on one row in a new process; `table`
formats the figures as Markdown; `__main__` runs everything.
"""
