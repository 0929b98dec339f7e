# cython: language_level=3
"""Attributes and methods of operands, and operators without a kernel, in terms of NumPy functions.

Attributes and methods without a derivative raise an error that says what to write instead.
"""

from __future__ import annotations

import operator
import sys

import numpy as np

from wengert.core.dispatch.arguments cimport is_a
cimport wengert.core.dispatch.direct as direct
cimport wengert.core.operands.var as var  # this form lets Cython track the dependency

from wengert import registry
from wengert.core import levels
from wengert.core.dispatch import direct
from wengert.core.dispatch.arguments import check_complex, clean
from wengert.core.dispatch.checks import refusal
from wengert.core.dispatch.dispatch import (
    constant_row, function, has_subclass, record_constant, ufunc,
)
from wengert.core.dispatch.flat import Flat
from wengert.core.frames import at, is_numba, solver
from wengert.core.messages import array_message, dtype_error, solver_message
from wengert.core.operands import var
from wengert.core.operands.var import observed
from wengert.deferred import deferred
from wengert.dependence import Elementwise
from wengert.errors import TracedValueError, UnsupportedFunctionError

object_arrays = deferred("wengert.core.dispatch.object_arrays")
matrices = deferred("wengert.core.dispatch.matrices")


#: modules of `wengert.core.dispatch`, set by `wengert.core.hooks`
instances = subclasses = None

cdef dict NO_KEYWORDS = {}


def operate(fun, compute, left, right):
    """Apply an operator that has no kernel, such as ``%`` or ``@``."""
    y = direct.recorded(fun, (left, right), NO_KEYWORDS, compute)
    if y is not NotImplemented:
        return y
    for x in (left, right):
        if not (var.is_var(x) or is_a(x, (np.ndarray, np.generic, list, tuple, int, float, complex))):
            return matrices.operate(fun, left, right)
    if has_subclass((left, right)) and subclasses.is_handled((left, right)):
        return subclasses.operate(fun, left, right)
    return ufunc(fun, "__call__", (left, right), {}, compute)


#: methods of arrays and scalars that equal the NumPy function of the same name
METHODS = {
    name: getattr(np, name)
    for name in (
        "sum mean prod max min cumsum cumprod var std ravel squeeze swapaxes repeat take dot trace "
        "diagonal round argmax argmin argsort any all nonzero searchsorted argpartition"
    ).split()
}

#: attributes that depend on an array's memory, which a recording copies; METADATA depends only on its layout
MEMORY_ATTRIBUTES = frozenset(("base", "ctypes", "data"))
METADATA = frozenset("nbytes itemsize strides flags device".split())

#: attributes and methods whose result would lose the derivative
LOSES_DERIVATIVE = frozenset(
    "as_integer_ratio hex tobytes tostring tofile dump dumps data ctypes base".split()
)
INTERFACES = frozenset(("__array_interface__", "__array_struct__"))


class Flags:
    """Stands in for ``x.flags`` while recording: a replay has the same memory layout, but not the same ownership."""

    _LAYOUT = frozenset(
        "c_contiguous f_contiguous contiguous fortran forc fnc C F FORC FNC "
        "C_CONTIGUOUS F_CONTIGUOUS CONTIGUOUS FORTRAN".split()
    )

    def __init__(self, flags):
        object.__setattr__(self, "_flags", flags)

    def __getattr__(self, name):
        if name not in self._LAYOUT:
            levels.end_recording(f"x.flags.{name} depends on the memory of an array", True)
        return getattr(self._flags, name)

    def __getitem__(self, name):
        if name not in self._LAYOUT:
            levels.end_recording(f"x.flags[{name!r}] depends on the memory of an array", True)
        return self._flags[name]

    def __setattr__(self, name, value):
        levels.end_recording(f"x.flags.{name} is assigned", True)

    def __repr__(self):
        levels.end_recording("x.flags depends on the memory of an array", True)

    __class__ = property(lambda self: type(self._flags))


#: methods without a derivative, and what to write instead
REFUSED_METHODS = {
    "resize": "create an array with numpy.zeros and assign to a part of it",
    "byteswap": "only plain arrays can swap bytes: pass wengert.stop_gradient(array)",
    "getfield": "take x.real, x.imag or a slice",
    "setfield": "assign to x.real, x.imag or a slice",
}


#: the module `wengert.numpy`, which sets this when it is imported
namespace = None


def array_namespace(x, api_version):
    """Return the namespace of the Python array API that accepts traced values.

    `array_api_compat` requires one namespace for all arrays of a call. If some of them are plain, return theirs.
    """
    np.empty(0).__array_namespace__(api_version=api_version)  # NumPy's own errors
    if var.is_traced(x) and (name := solver()) is not None:
        raise refusal(x, solver_message(name))
    frame = sys._getframe()
    package = frame.f_globals.get("__name__", "").removesuffix(".common._helpers")
    if package.endswith("array_api_compat") and f"{package}.numpy" in sys.modules:
        given = frame.f_locals.get("xs", ())
        if any(issubclass(type(y), (np.ndarray, np.generic)) for y in given):
            return sys.modules[f"{package}.numpy"]
    return namespace


def array_attribute(x, name):
    """Return an attribute of a traced or clean array that its class does not define."""
    value = var.value_of(x)
    if name in METHODS:
        fun = METHODS[name]
        return lambda *args, **kwargs: function(fun, (x, *args), kwargs)
    if name in ARRAY_METHODS:
        method = ARRAY_METHODS[name]
        return lambda *args, **kwargs: method(x, *args, **kwargs)
    if name in METADATA:
        if name == "flags" and var.is_traced(x) and is_numba():
            raise refusal(x, array_message())  # Numba infers the type of an argument, and cannot read it then
        return Flags(value.flags) if name == "flags" and var.recording_level(x) else getattr(value, name)
    if name in MEMORY_ATTRIBUTES and var.recording_level(x):
        levels.end_recording(f"x.{name} depends on the memory of an array", True)
    if name in INTERFACES:
        return _interface(x, name)
    if name == "mT":
        return np.swapaxes(x, -1, -2)
    if name.startswith("__") or not hasattr(np.ndarray, name):
        raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
    if not var.is_traced(x):
        return getattr(x.__array__(), name)
    if name in REFUSED_METHODS:
        raise refusal(
            x, f"ndarray.{name} has no derivative rule{at()}: {REFUSED_METHODS[name]}", UnsupportedFunctionError
        )
    if var.is_passive(x):
        return getattr(observed(x), name)
    raise _without_rule(x, "ndarray", name, "array", "write it with")


def scalar_attribute(x, name):
    """Return an attribute of a traced scalar that its class does not define."""
    if name in METHODS:
        fun = METHODS[name]
        return lambda *args, **kwargs: function(fun, (x, *args), kwargs)
    if name == "copy":
        return lambda: x
    if name in ("clip", "conj", "conjugate", "reshape", "astype", "flatten", "item", "setflags", "tolist",
                "transpose"):
        method = ARRAY_METHODS[name]
        return lambda *args, **kwargs: method(x, *args, **kwargs)
    value = var.value_of(x)
    if name in METADATA:
        return getattr(value, name)
    if name in INTERFACES:
        return _interface(x, name)
    if name == "is_integer":
        if var.recording_level(x):
            return lambda: record_constant(constant_row, (x,), {}, operator.methodcaller(name))
        return getattr(value, name)
    if name == "imag":
        return np.float64(0.0)
    if name == "flat":
        return Flat(np.copy(x))
    if name == "mT":
        return getattr(value, name)
    if name.startswith("__") or not hasattr(value, name):
        raise AttributeError(f"'numpy.{type(value).__name__}' object has no attribute {name!r}")
    if var.is_passive(x):
        return getattr(observed(x), name)
    raise _without_rule(x, "float64", name, "value", "use")


def _without_rule(x, kind, name, what, remedy):
    """Return the error for an attribute without a derivative of a traced array or scalar."""
    if name in LOSES_DERIVATIVE:
        return refusal(
            x,
            f"{kind}.{name} would lose the derivative of a traced {what}{at()}: "
            f"pass wengert.stop_gradient({what}) where a constant is meant",
        )
    message = f"{kind}.{name} has no derivative rule{at()}: {remedy} NumPy functions that have one"
    return refusal(x, message, UnsupportedFunctionError)


def _interface(x, name):
    """Return the array interface of `x`; raises wherever conversion to an array raises.

    NumPy reads this attribute as well, before ``__array__``.
    """
    if matrices.array_for_scipy(x) is not None:
        raise AttributeError(name)
    return getattr(x.__array__(), name)


def _reshape(x, *shape, **kwargs):
    return function(np.reshape, (x, shape[0] if len(shape) == 1 else shape), kwargs)


def _transpose(x, *axes):
    if len(axes) == 1 and (axes[0] is None or np.ndim(axes[0])):
        axes = axes[0]
    return function(np.transpose, (x, None if axes is None else tuple(axes) or None), {})


def _flatten(x, order="C"):
    return function(np.copy, (function(np.ravel, (x,), {"order": order}),), {})


def _astype(x, dtype, order="K", casting="unsafe", subok=True, copy=True):
    """Convert to another dtype: linear between floating dtypes, a constant for integers and booleans."""
    dtype = np.dtype(dtype)
    value = var.value_of(x)
    if casting != "unsafe":
        np.empty(0, value.dtype).astype(dtype, casting=casting)  # NumPy's own error
    if dtype.kind == "O":
        return object_arrays.made(x)
    if dtype.kind not in "biufc" and var.is_traced(x):
        raise dtype_error(_astype_row, dtype)
    if value.dtype.kind == "c" and dtype.kind not in "cb" and var.is_traced(x):
        raise TracedValueError(f"numpy.ndarray.astype would drop the imaginary part{at()}: take x.real first")
    if dtype == value.dtype and var.is_traced(x):
        is_kept = order not in ("C", "F") or value.flags[f"{order}_CONTIGUOUS"]
        return x if var.is_scalar(x) or (is_kept and not copy) else function(np.copy, (x,), {"order": order})
    if (dtype.kind not in "fc" or value.dtype.kind in "biu") and var.recording_level(x):
        return record_constant(constant_row, (x, dtype), {}, converted)
    y = value.astype(dtype, order)
    if dtype.kind not in "fc" or not var.is_traced(x):
        return clean(y)
    if order != "K" and not var.is_scalar(x):
        return function(np.copy, (_astype(x, dtype),), {"order": order})
    level = var.level_of(x)
    below = var.lower(x, level)
    y = below.astype(dtype) if var.is_var(below) else y
    check_complex(level, _astype_row, [], y)
    return var.record(level, _astype_row, (below, dtype), {}, [(0, -1, x)], y, None, converted)


_astype_row = registry.Primitive(
    "numpy.ndarray.astype",
    "linear",
    vjps={0: lambda ybar, y, x, dtype: (ybar if x.dtype.kind == "c" else ybar.real).astype(x.dtype)},
    jvps={0: lambda t, y, x, dtype: t.astype(dtype)},
    home=f"{__name__}._astype_row",
    stacked=True,
    dependence=Elementwise(1),
    on_complex=True,
)


def converted(x, dtype):
    """Return ``x.astype(dtype)``, the function that the tape stores; x may be a Python float."""
    return (np.float64(x) if type(x) is float else x).astype(dtype)


def _copy(x, order="C"):
    return x if var.is_scalar(x) else function(np.copy, (x,), {"order": order})


def _clip(x, min=None, max=None, out=None, **kwargs):
    return function(np.clip, (x, min, max), kwargs if out is None else {**kwargs, "out": out})


def conj(x, *out):
    """Return the conjugate as ``ndarray.conj`` does: a real array returns itself."""
    return function(np.conjugate, (x, *out), {}) if out or x.dtype.kind == "c" else x


def _compress(x, condition, axis=None, out=None):
    return function(np.compress, (condition, x), {"axis": axis, "out": out})


def _choose(x, *choices, out=None, mode="raise"):
    choices = choices[0] if len(choices) == 1 else choices
    return function(np.choose, (x, choices), {"out": out, "mode": mode})


def _put(x, indices, values, mode="raise"):
    function(np.put, (x, indices, values), {"mode": mode})


def _to_device(x, device, *, stream=None):
    np.empty(0).to_device(device, stream=stream)  # NumPy's own error
    return x


def _fill(x, value):
    x[...] = value


def _sort(x, axis=-1, kind=None, order=None, **options):
    kwargs = {"kind": kind, "order": order, **options}
    x[...] = function(np.sort, (x, axis), {name: option for name, option in kwargs.items() if option is not None})


def _partition(x, kth, axis=-1, kind="introselect", order=None):
    kwargs = {"kind": kind} if order is None else {"kind": kind, "order": order}
    x[...] = function(np.partition, (x, kth, axis), kwargs)


def _item(x, *index):
    """Return an element as a Python scalar."""
    if not var.is_traced(x) or var.is_passive(x):
        return observed(x).item(*index)
    var.value_of(x).item(*index)  # NumPy's own errors
    index = index[0] if len(index) == 1 else index or 0
    if var.is_scalar(x):
        return _python_scalar(x)
    return _python_scalar(x[np.unravel_index(index, np.shape(x)) if np.ndim(index) == 0 else index])


def _tolist(x):
    """Return nested lists of Python scalars."""
    if not var.is_traced(x) or var.is_passive(x):
        return observed(x).tolist()
    return [_tolist(item) for item in x] if np.ndim(x) else _python_scalar(x if var.is_scalar(x) else x[()])


def _python_scalar(x):
    """Convert a traced scalar to a traced Python float; a complex one stays as it is."""
    return x if x.dtype.kind == "c" else var.float_of(x.astype(np.float64))


def _view(x, *args, **kwargs):
    if args or kwargs:
        y = instances.view(x, args, kwargs)
        if y is not NotImplemented:
            return y
        if var.is_passive(x):
            return observed(x).view(*args, **kwargs)
        value = var.value_of(x)
        y = value.view(*args, **kwargs)
        if type(y) is np.ndarray and y.dtype.kind in "fc" and y.real.dtype == value.real.dtype:
            return var.view_of(x, y)  # complex as pairs of real and imaginary parts, or back
        raise UnsupportedFunctionError(f"ndarray.view with another dtype has no derivative{at()}: use x.astype(dtype)")
    return var.view_of(x, var.value_of(x).view())


def _setflags(x, write=None, align=None, uic=None):
    if var.recording_level(x) and (write or align is not None or uic is not None):
        levels.end_recording("x.setflags depends on the memory of an array", True)
    var.value_of(x).setflags(write=write, align=align, uic=uic)


ARRAY_METHODS = {
    fun.__name__.removeprefix("_"): fun
    for fun in (
        _astype, _choose, _clip, _compress, _copy, _fill, _flatten, _item, _partition, _put, _reshape, _setflags,
        _sort, _to_device, _tolist, _transpose, _view, conj,
    )
}
ARRAY_METHODS["conjugate"] = conj
