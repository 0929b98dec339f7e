"""Base class of values that stand for several arrays: truncated Taylor series (`wengert.taylor`) and batches.

A differentiated function sees an array. Operators, methods and NumPy's protocols call ``_call(fun, args, kwargs)``;
indexing calls ``_item`` and ``_store``. Subclasses implement these three.
While a function runs on such values, NumPy's creation functions return lifted arrays, so that they can be stored into.
"""

from __future__ import annotations

import numpy as np

from wengert import registry
from wengert.core import frames
from wengert.core.dispatch import dispatch, instances, methods, mixed, python_ufuncs, subclasses
from wengert.core.operands import var
from wengert.core.rebind.new_arrays import AS_ARRAY, AS_FLOAT, AS_OUT
from wengert.deferred import deferred
from wengert.errors import TracedValueError

advice = deferred("wengert.core.advice")
matrices = deferred("wengert.core.dispatch.matrices")

#: creation functions that take their shape and dtype from an array
LIKE = frozenset((np.zeros_like, np.empty_like, np.ones_like))


#: name of the copy of `numpy.polynomial` in `wengert.numpy`: its code tells arrays from scalars by their class
POLYNOMIALS = "wengert.numpy_polynomial"


class Lifted(var.BufferExporter):
    """A value with the interface of an array."""

    __slots__ = ()
    __array_priority__ = 1000.0

    #: name of the value in error messages
    what = "a value"

    # -- implemented by subclasses

    def _call(self, fun, args, kwargs):
        raise NotImplementedError

    def _item(self, key):
        raise NotImplementedError

    def _store(self, key, value):
        raise NotImplementedError

    def _sample(self):
        """Return a plain value of the same type and shape."""
        raise NotImplementedError

    def _is_contiguous(self, order):
        """Return whether the elements are contiguous in C or Fortran order."""
        raise NotImplementedError

    def _as_constant(self, where):
        """Return the value if all arrays that this one represents share it; else raise."""
        self._raise_unsupported(where)

    def _scalar_call(self, rule, value, args):
        """Call a function of Python scalars that shares the rule of a NumPy function; ``value(*args)`` computes it."""
        self._raise_unsupported(value.__name__)

    # -- protocols

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, where=True, **kwargs):
        if _has_subclass((inputs, *kwargs.values(), out)):
            options = {name: value for name, value in (("out", out), ("where", where)) if value not in (None, True)}
            return subclasses.call_ufunc(ufunc, method, inputs, {**kwargs, **options})
        inputs = tuple(map(mixed.as_array_like, inputs))
        kwargs = {name: value for name, value in kwargs.items() if value is not None or name == "axis"}
        if method == "__call__" and (f := python_ufuncs.function_of(ufunc)) is not None:
            found = python_ufuncs.call(ufunc, f, inputs, **kwargs)
        elif method == "__call__":
            found = self._call(ufunc, inputs, kwargs)
        elif method == "outer" and len(inputs) == 2:
            left, right = inputs
            found = ufunc(np.reshape(left, np.shape(left) + (1,) * np.ndim(right)), right)
        else:
            fun = registry.ufunc_methods.get((ufunc, method))
            if fun is None or method == "at":
                self._raise_unsupported(f"numpy.{ufunc.__name__}.{method}")
            count = 2 if method == "reduceat" else 1
            names = dict(zip(("axis", "dtype", "out"), inputs[count:]))
            found = self._call(fun, inputs[:count], {"axis": 0, **names, **kwargs})
        if out is None and where is True:
            return found
        out = out[0] if isinstance(out, tuple) else out
        if not isinstance(out, Lifted):
            raise TracedValueError(
                f"out= of numpy.{ufunc.__name__} {AS_OUT} {self.what}: create it in the "
                "function with np.zeros, or copy it with np.copy"
            )
        out[...] = found if where is True else np.where(where, found, out)
        return out

    def __array_function__(self, function, types, args, kwargs):
        if _has_subclass((args, *kwargs.values())):
            return subclasses.call(function, args, kwargs)
        out = kwargs.pop("out", None)
        found = self._call(function, tuple(map(mixed.as_array_like, args)), kwargs)
        if out is not None:
            out[...] = found
            return out
        return found

    def __array_namespace__(self, *, api_version=None):
        return methods.namespace

    def __array__(self, dtype=None, copy=None):
        handed = matrices.array_for_scipy(self, 2)
        if handed is not None:
            return handed
        return self._raise_unsupported(AS_ARRAY)

    def _export_buffer(self):
        if matrices.array_for_scipy(self, 2) is None:
            self._raise_unsupported(advice.library_call(frames.user_frame()) or "code that reads its memory")

    def _displayed(self):
        """Return the scalar that text shows, or None if there is none."""
        return None

    def __float__(self):
        if frames.is_asserted() and (value := self._displayed()) is not None:
            return float(value)
        self._raise_unsupported(AS_FLOAT)

    def __hash__(self):
        if self.ndim:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        self._raise_unsupported("a set, the keys of a dict, or a cache")

    def __copy__(self):
        return self.copy() if self.ndim else self

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def _raise_unsupported(self, where):
        place = frames.where(frames.caller())
        raise TracedValueError(
            f"{self.what} cannot go through {where} ({place}): use NumPy functions, and np.stack to join values"
        )

    # -- interface of arrays

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=int))

    @property
    def T(self):
        return np.transpose(self)

    @property
    def real(self):
        return np.real(self)

    @real.setter
    def real(self, value):
        if self.dtype.kind == "c":
            self._raise_unsupported("an assignment to x.real of a complex array")
        self[...] = value

    @property
    def imag(self):
        return np.imag(self)

    @imag.setter
    def imag(self, value):
        if self.dtype.kind == "c":
            self._raise_unsupported("an assignment to x.imag of a complex array")
        raise TypeError("array does not have imaginary part to set")

    def __len__(self):
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, key):
        return self._item(key)

    def __setitem__(self, key, value):
        self._store(key, instances.unwrapped(value) if var.may_hold_instances() else value)

    def __getattr__(self, name):
        if name in methods.METHODS:
            fun = methods.METHODS[name]
            return lambda *args, **kwargs: fun(self, *args, **kwargs)
        if name in methods.INTERFACES and matrices.array_for_scipy(self, 2) is None:
            self._raise_unsupported("code that reads its memory")
        kind = np.ndarray if self.ndim else self.dtype.type
        if name.startswith("__") or not hasattr(kind, name):
            raise AttributeError(f"'numpy.{kind.__name__}' object has no attribute {name!r}")
        return self._raise_unsupported(f"{kind.__name__}.{name}")

    conj = conjugate = methods.conj

    def copy(self, order="C"):
        return np.copy(self, order=order) if self.ndim else self

    def reshape(self, *shape, order="C"):
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes):
        axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return np.transpose(self, axes or None)

    def flatten(self, order="C"):
        return np.copy(np.ravel(self, order=order))

    def clip(self, min=None, max=None):
        return np.clip(self, min, max)

    def fill(self, value):
        self[...] = value

    def view(self, *args, **kwargs):
        if not (args or kwargs):
            return self
        y = instances.view(self, args, kwargs)
        return self._raise_unsupported("ndarray.view with another dtype") if y is NotImplemented else y


#: methods of plain arrays that lifted arrays lack, each with a description of the code that calls it
_UNSUPPORTED = {
    "__dlpack__": "code that reads its memory",
    "__int__": "code that makes a Python int of it",
    "__reduce_ex__": "pickle",
    "__round__": "round",
}
for _name, _where in _UNSUPPORTED.items():
    setattr(Lifted, _name, lambda self, *args, _where=_where, **kwargs: self._raise_unsupported(_where))


def _operators():
    """Define the operators on `Lifted`: binary, reflected and in place; comparisons; unary."""
    for fun, name, _ in mixed.ARITHMETIC:

        def left(self, other, fun=fun):
            is_known = _is_operand(other, fun)
            return self._call(fun, (self, other), {}) if is_known else mixed.operate(fun, self, other)

        def right(self, other, fun=fun):
            is_known = _is_operand(other, fun)
            return self._call(fun, (other, self), {}) if is_known else mixed.operate(fun, other, self)

        def in_place(self, other, fun=fun):
            found = self._call(fun, (self, other), {})
            if not self.ndim:
                return found
            self[...] = found
            return self

        setattr(Lifted, f"__{name}__", left)
        setattr(Lifted, f"__r{name}__", right)
        setattr(Lifted, f"__i{name}__", in_place)
    for name, fun in mixed.COMPARISONS.items():

        def compared(self, other, fun=fun):
            if isinstance(other, (str, bytes)) and fun in (np.equal, np.not_equal):
                return mixed.compare_with_text(fun, self.shape, other)
            if _has_subclass((other,)):
                return fun(self, other)
            return self._call(fun, (self, other), {})

        setattr(Lifted, f"__{name}__", compared)
    for name, fun in mixed.UNARY.items():
        setattr(Lifted, f"__{name}__", lambda self, fun=fun: self._call(fun, (self,), {}))


def _has_subclass(args) -> bool:
    """Return whether an argument is an instance of a subclass of `ndarray` that `subclasses` handles."""
    for x in args:
        if type(x) in (list, tuple):
            if (var.may_hold_instances() and instances.holds_instance(x)) or _has_subclass_at_top(x):
                return True
    return _has_subclass_at_top(args)


def _has_subclass_at_top(args) -> bool:
    return dispatch.has_subclass(args) and subclasses.is_handled(args)


def _is_operand(x, fun):
    if isinstance(x, Lifted):
        return True
    if fun is np.matmul and matrices.is_sparse(x):
        return True
    if _has_subclass((x,)):
        return False
    return var.is_var(x) or isinstance(x, (np.ndarray, np.generic, bool, int, float, complex, list, tuple))


_operators()


def in_c_order(x):
    """Copy an array to C order if needed: ``np.array`` of a list of arrays has this order, unlike ``np.stack``."""
    return x if np.ndim(x) < 3 or not isinstance(x, Lifted) or x._is_contiguous("C") else np.copy(x, order="C")


def holds_lifted(x) -> bool:
    """Return whether `x` is lifted, or a list or tuple that holds a lifted value at any depth."""
    if isinstance(x, (list, tuple)):
        return any(map(holds_lifted, x))
    return isinstance(x, Lifted)
