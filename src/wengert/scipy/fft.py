"""``scipy.fft`` with functions that accept traced values."""

import wengert.rules.scipy.fft  # noqa: F401  (declares the rules)
from wengert.scipy import namespace as _namespace

_namespace.install("fft")
