"""``scipy.fft`` with functions that accept traced values."""

import wengert.numpy as _numpy
from wengert import registry as _registry
from wengert.rules.scipy.fft import fft as _fft  # declares the rules
from wengert.scipy import copies as _copies
from wengert.scipy import namespace as _namespace

_fftlog = _copies.second_copy("scipy.fft._fftlog_backend")
for _name in ("fht", "ifht", "fhtoffset"):
    _registry.composed(getattr(_fft, _name), getattr(_fftlog, _name))
for _name in ("fftfreq", "rfftfreq"):
    _registry.composed(getattr(_fft, _name), getattr(_numpy.fft, _name))

#: context managers and back-end settings
_PLAIN = frozenset("register_backend set_backend set_global_backend set_workers skip_backend".split())

_namespace.install("fft")
