"""Random programs over the rule table, each differentiated in every way and compared with mathematics of its own.

A program is Python source: statements in plain NumPy, drawn with the values at hand so that every call is made in its
domain. `table` says how each row is called, `forms` how arrays are written, `complexes` what goes through complex
values; `programs` draws and shrinks, `twins` continues the program to complex arguments, with `pairs` where it is
complex itself, and `check` compares. `python -m tests.fuzz --programs N --seed S` runs it.
"""
