"""``scipy.fftpack`` with functions that accept traced values."""

import wengert.rules.scipy.fftpack
import wengert.scipy.fft  # noqa: F401  (declares the rules of shared functions)
from wengert.scipy import namespace as _namespace

_namespace.install("fftpack")
