"""Random programs over the rule table, each differentiated in every way and compared with mathematics of its own.

A program is Python source: statements in plain NumPy, drawn with the values at hand so that every call is made in its
domain. `table` says how each row and each form of a write is called, `programs` draws and shrinks, `twins` continues
the program to complex arguments, and `check` compares. `python -m tests.fuzz --programs N --seed S` runs it.
"""
