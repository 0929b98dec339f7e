"""Derivative rules for SciPy functions other than those of ``scipy.special``, one module per subject.

SciPy's functions do not dispatch on their operands, so each rule belongs to a proxy that does (`functions`).
`wengert.scipy` publishes the proxies under SciPy's names, and code under differentiation sees them in place of SciPy's.
A module here is imported once its part of SciPy has been.
"""

from wengert.features import has_mirrors

if not has_mirrors():
    raise ImportError("functions of wengert.scipy other than optimize and special need SciPy 1.17 or newer")
