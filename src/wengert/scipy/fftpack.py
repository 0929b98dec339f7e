"""``scipy.fftpack`` with functions that accept traced values."""

import wengert.rules.scipy.fftpack
import wengert.scipy.fft  # noqa: F401  (declares those of functions that both have)
from wengert.scipy import namespace as _namespace

_namespace.install("fftpack")
