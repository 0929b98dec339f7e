"""Calls of SciPy with closed forms in mpmath, by module of SciPy: `CASES[module][function][label]` is a row."""

from . import discrete, distributions, linalg, sciences, signal
from .engine import errors, limits

__all__ = ["CASES", "errors", "limits"]

CASES = {**sciences.CASES, **signal.CASES, "linalg": linalg.CASES, "stats": {**distributions.CASES, **discrete.CASES}}
