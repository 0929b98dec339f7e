"""Random programs over the rule table, differentiated in every mode and compared with independent references.

A program is Python source: plain NumPy statements, drawn with the current values so that every call is within its
domain. `table` describes calls of each rule, `forms` writes and ufunc call forms, `complexes` steps through complex
values; `programs` draws and shrinks; `twins` continues a program to complex arguments, using `pairs` if it is
complex itself; `check` compares. `python -m tests.fuzz --programs N --seed S` runs it.
`objects` draws trees of objects, and changes of them, for compiled functions.
"""
