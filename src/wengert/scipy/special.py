"""``scipy.special`` with functions that accept traced values.

Ufuncs are SciPy's own, since they dispatch on their operands; functions written in Python do not and are wrapped here.
A function under differentiation uses these versions wherever its names refer to SciPy.
"""

from __future__ import annotations

import functools as _functools
import sys as _sys

import numpy as _np
import scipy.special as _special

import wengert.numpy as _numpy  # noqa: F401  (registers the rules)
from wengert import registry as _registry
from wengert.core.dispatch import dispatch as _dispatch
from wengert.core.dispatch.lifted import Lifted as _Lifted
from wengert.core.operands import var as _var
from wengert.core.rebind import registration as _registration


def _dispatching(name, fun):
    """Wrap a SciPy function that does not dispatch on its operands."""

    @_functools.wraps(fun, updated=())
    def call(*args, **kwargs):
        if _var.holds_var(args) or _var.holds_var(tuple(kwargs.values())):
            return _dispatch.function(fun, args, kwargs)
        for x in args:
            if isinstance(x, _Lifted):
                return x._call(fun, args, kwargs)
        return fun(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def __getattr__(name):
    return getattr(_special, name)


def __dir__():
    return dir(_special)


def _install() -> None:
    module = _sys.modules[__name__]
    _registry.lookup(_special.erf)  # loads the rules of scipy.special
    for name in dir(_special):
        fun = getattr(_special, name)
        if name.startswith("_") or not callable(fun):
            continue
        if not isinstance(fun, _np.ufunc) and fun in _registry.rows:
            dispatching = _dispatching(name, fun)
            _registration.register(fun, dispatching)
            fun = dispatching
        setattr(module, name, fun)
    _registration.register(_special, module)


_install()
