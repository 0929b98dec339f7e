"""Calls of Numba's generalised ufuncs with traced arguments: their Python function runs once per set of core arrays.

``numba.guvectorize`` makes a `GUFunc`, which passes its arguments to a ufunc that does not refer back to it, so
followed code sees a `Generalised` instead.
``numba.vectorize`` makes a `DUFunc`, which passes itself to ``__array_ufunc__`` (`python_ufuncs`).
"""

from __future__ import annotations

import re

import numpy as np

from wengert.core import levels
from wengert.core.dispatch.arguments import clean
from wengert.core.frames import at
from wengert.core.operands import var
from wengert.core.rebind import registration
from wengert.core.rebind.follow import function_of_ufunc
from wengert.errors import TracedValueError, UnsupportedFunctionError


class Generalised:
    """Replacement of a `GUFunc`, with a rebound copy of its Python function."""

    def __init__(self, original, function):
        self._original, self._function = original, function
        self._inputs, self._outputs = (
            [[name.strip() for name in core.split(",") if name.strip()] for core in re.findall(r"\((.*?)\)", side)]
            for side in original.signature.split("->")
        )
        types = next((signature.args for signature in original.gufunc_builder._sigs), ())
        #: which scalar arguments the function receives as arrays of one element
        self._boxed = [not core and hasattr(kind, "ndim") for kind, core in zip(types, self._inputs)]

    def __getattr__(self, name):
        return getattr(self._original, name)

    def __call__(self, *args, **kwargs):
        n = len(self._inputs)
        args = tuple(np.stack(x) if isinstance(x, (list, tuple)) and var.holds_var(x) else x for x in args)
        out = kwargs.get("out", ())
        every = (*args, *(out if isinstance(out, tuple) else (out,)))
        if not (levels.is_tracing() and var.holds_var(list(every))):
            return self._original(*args, **kwargs)
        sizes = self._sizes(every)
        if kwargs.keys() - {"out"} or sizes is None or len(every) < n + self.is_dynamic:
            self._original(*var.plain(args), **{name: var.plain(x) for name, x in kwargs.items()})  # may raise
            raise UnsupportedFunctionError(
                f"{self.__name__} has no derivative rule for this call{at()}: pass arrays of the sizes in its "
                f"signature {self.signature}, and no option but out="
            )
        inputs = every[:n]
        loop = np.broadcast_shapes(*(_split(x, core)[0] for x, core in zip(inputs, self._inputs)))
        rows = [np.broadcast_to(x, loop + _split(x, core)[1]) for x, core in zip(inputs, self._inputs)]
        for k, is_boxed in enumerate(self._boxed):
            rows[k] = np.reshape(rows[k], (*loop, 1)) if is_boxed else rows[k]
        outs = self._results(inputs, every[n:], loop, sizes)
        for i in np.ndindex(*loop):
            self._function(*(x[i] for x in rows), *(y[i] for y in outs))
        made = [y if core else y[..., 0][()] for y, core in zip(outs, self._outputs)]
        results = (*every[n:], *made[len(every) - n :])
        return results[0] if len(results) == 1 else results

    def _sizes(self, args):
        """Return the sizes of the core dimensions by name, or None if they do not match."""
        sizes: dict = {}
        for x, core in zip(args, [*self._inputs, *self._outputs]):
            shape = _split(x, core)[1]
            if len(shape) < len(core) or any(sizes.setdefault(name, size) != size for name, size in zip(core, shape)):
                return None
        return sizes

    def _results(self, inputs, given, loop, sizes):
        """Return arrays for the results; a scalar result is an array of one element for each call."""
        if not all(var.is_var(y) for y in given):
            raise TracedValueError(
                f"{self.__name__} cannot write traced values to a plain array{at()}: make the array with "
                "numpy.empty inside of the function"
            )
        outs = [y if core else np.reshape(y, (*np.shape(y), 1)) for y, core in zip(given, self._outputs)]
        if len(outs) < len(self._outputs):
            dtypes = self.ufunc.resolve_dtypes((*map(_dtype, inputs), *(None for _ in self._outputs)))[len(inputs) :]
            for core, dtype in list(zip(self._outputs, dtypes))[len(outs) :]:
                outs.append(clean(np.zeros(loop + (tuple(sizes[name] for name in core) or (1,)), dtype)))
        return outs


def _split(x, core):
    """Return the shape of an argument before and in its core dimensions."""
    shape = np.shape(x)
    first = len(shape) - len(core)
    return shape[: max(first, 0)], shape[max(first, 0) :]


def _dtype(x):
    return x.dtype if hasattr(x, "dtype") else type(x)


def install():
    """Register the replacement of Numba's generalised ufuncs."""
    from numba.np.ufunc.gufunc import GUFunc

    registration.register_wrapper(GUFunc, function_of_ufunc, Generalised)
