"""Arithmetic of truncated Taylor series ``c[0] + c[1] t + ... + c[n] t^n`` for all registered functions.

Input: a function of the registry and arguments, some of which are `Series`. Output: the `Series` of the result.

A registry row may state a rule (`Primitive.taylor`, with the recurrences of `wengert.rules.taylor`). Otherwise the
series follows from the partials: y = phi(u) with partial p(y, u) satisfies y' = p u', which yields the coefficients one
by one, k y_k = sum_j j u_j p_{k-j}. Piecewise linear functions act on each coefficient; multilinear ones are
convolutions.

Reference: Griewank and Walther (2008), Evaluating Derivatives, section 13.2. doi:10.1137/1.9780898717761
"""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from wengert import registry
from wengert.core import frames, levels, messages
from wengert.core.dispatch import arguments, checks, dispatch, matrices
from wengert.core.dispatch.lifted import LIKE, POLYNOMIALS, Lifted, holds_lifted, in_c_order
from wengert.core.modes import forward
from wengert.core.operands import var
from wengert.core.tape.local_derivatives import aligned
from wengert.errors import TracedValueError, UnsupportedFunctionError
from wengert.features import parameters_of as signature
from wengert.rules.taylor import COEFFICIENTWISE, PIECEWISE_LINEAR, derived, product

#: cache of the series computed in one expansion, since partials share subexpressions; for the keys see `_key`
_cache: ContextVar = ContextVar("wengert_series", default=None)

#: name of the innermost function that is applied as a composition of others
_called: ContextVar = ContextVar("wengert_called", default="")


def _of_value(fun):
    """Return a method that calls a function of the value at t = 0."""
    return lambda self, *args: fun(self.c[0], *args)


class Series(Lifted):
    """An array of truncated power series; the coefficients ``c`` are arrays of its shape."""

    __slots__ = ("c",)
    what = "a Taylor series"

    def __init__(self, c: list):
        self.c = _laid_out_alike(c) if np.ndim(c[0]) > 1 else c

    @property
    def __class__(self):
        """Report an array or a scalar to user code; NumPy, SciPy and this package see a `Series`."""
        module = sys._getframe(1).f_globals.get("__name__", "")
        if module == "json.encoder" and not self.ndim:
            self._raise_unsupported("json")
        package = module.partition(".")[0]
        is_seen = package in ("wengert", "numpy", "scipy") and not module.startswith(POLYNOMIALS)
        kind = Series if is_seen else self.c[0].__class__
        return {np.float64: float, np.complex128: complex}.get(kind, kind if kind is np.ndarray else Series)

    @property
    def shape(self):
        return np.shape(self.c[0])

    @property
    def dtype(self):
        return np.result_type(*self.c)

    @property
    def order(self):
        return len(self.c) - 1

    def __repr__(self):
        return checks.written(self, repr(self.c[0]))

    def __str__(self):
        return checks.written(self, str(self.c[0]))

    def __format__(self, spec):
        return checks.written(self, format(self.c[0], spec), spec)

    def _displayed(self):
        return self.c[0] if self.ndim == 0 else None

    # piecewise constant operations return plain values
    __bool__, __int__, __round__ = _of_value(bool), _of_value(int), _of_value(round)
    __floor__, __ceil__, __trunc__ = _of_value(math.floor), _of_value(math.ceil), _of_value(math.trunc)

    def is_integer(self):
        if self.ndim:
            raise AttributeError("'numpy.ndarray' object has no attribute 'is_integer'")
        return self.c[0].is_integer()

    def _call(self, fun, args, kwargs):
        with levels.lifting(None):  # rules create arrays of coefficients, not series
            return apply(fun, args, kwargs)

    def _sample(self):
        return var.plain(self.c[0])

    def _as_constant(self, where):
        return self._raise_unsupported(where) if any(np.any(var.plain(a)) for a in self.c[1:]) else self.c[0]

    def _is_contiguous(self, order):
        return np.asarray(self._sample()).flags[f"{order}_CONTIGUOUS"]

    def _scalar_call(self, rule, value, args):
        found = rule(*args)
        found.c[0] = value(*map(value_of, args))
        return found

    def _item(self, key):
        key = value_of(key)
        return Series([a[key] for a in self.c])

    def _store(self, key, value):
        key = value_of(key)
        terms = coefficients(value)
        for k, a in enumerate(self.c):
            a[key] = terms[k] if k < len(terms) else 0.0

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        if self.dtype == dtype and (self.ndim or not copy):
            return np.copy(self, order=order) if copy else self
        if np.dtype(dtype).kind not in "biufc":
            raise messages.dtype_error(None, dtype)
        if np.dtype(dtype).kind not in "fc":
            return value_of(self).astype(dtype, order)
        return Series([
            np.asarray(a).astype(dtype, order)[()] if not var.is_var(a) else a.astype(dtype, order) for a in self.c
        ])  # fmt: skip


def _laid_out_alike(c):
    """Copy coefficients to the memory layout of the value, so that `reshape` returns views of all or of none."""
    steps = var.plain(c[0]).strides
    if all(var.plain(a).strides == steps for a in c):
        return c
    axes = np.argsort([-abs(step) for step in steps], kind="stable")
    back = np.argsort(axes)
    return [
        a if var.plain(a).strides == steps else np.transpose(np.copy(np.transpose(a, axes), order="C"), back) for a in c
    ]


class Maker:
    """Creates arrays while a function runs on series."""

    refused = spelled = None  # errors that were noted, see `wengert.core.levels.remember`

    def __init__(self, order: int):
        self.order = order

    def made(self, array):
        """Convert a new float array to a series, so that series can be stored into it; return other values as is."""
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fc":
            return array
        c = [array, *[np.zeros_like(array) for _ in range(self.order)]]
        return Series([arguments.clean(a) for a in c] if levels.is_tracing() else c)

    def enclose(self, name):
        """Refuse a Taylor series inside this one, since the two would be confused."""
        raise UnsupportedFunctionError(
            f"{name} inside another Taylor series is not supported: use wengert.derivative for one of the two"
        )

    def array(self, x):
        """Stack nested lists that contain series, as ``np.array`` does."""
        if isinstance(x, Series):
            return np.copy(x)
        return in_c_order(np.stack([self.array(item) if isinstance(item, (list, tuple)) else item for item in x]))


def coefficients(x) -> list:
    """Coefficients of a series; for a constant, only the constant term."""
    return x.c if isinstance(x, Series) else [dispatch.from_list(x)]


def value_of(x):
    """Value at t = 0; lists and tuples are converted item by item."""
    if isinstance(x, Series):
        return x.c[0]
    if isinstance(x, (list, tuple)) and holds_lifted(x):
        return type(x)([value_of(item) for item in x])
    return x


def truncated(x, order):
    return Series(x.c[: order + 1]) if isinstance(x, Series) else x


# ---------------------------------------------------------------------------------------------- functions


class Builder:
    """Builds series for the rules in `registry.Primitive.taylor`; calling it with coefficients returns a series."""

    coefficients, value = staticmethod(coefficients), staticmethod(value_of)
    is_traced = staticmethod(dispatch.holds_traced)

    def __init__(self, row, order):
        self.fun, self.name, self.order = row.fun, row.name, order

    def is_series(self, x):
        return type(x) is Series

    def __call__(self, c):
        return Series(c)

    def constant(self, x):
        """Convert a constant array to a series."""
        return Maker(self.order).made(x)

    def refused(self, of):
        """Error for arguments that a rule does not support."""
        return _no_rule(self.name, of)


def apply(fun: Callable, args: tuple, kwargs: dict) -> Any:
    """Apply a function to series and constants."""
    found = [*_series_in(args), *_series_in(tuple(kwargs.values()))]
    order = min(x.order for x in found)
    if fun in LIKE:
        return Maker(order).made(fun(*value_of(args), **kwargs))
    row = registry.lookup(fun)
    if row is None or row.kind == "refuse":
        raise _no_rule(registry.dotted_name(fun))
    if row.kind == "constant":
        if row.reason:
            raise UnsupportedFunctionError(row.reason)
        if row.watch == "text":
            checks.written(found[0], "")
        return fun(*value_of(args), **{name: value_of(x) for name, x in kwargs.items()})
    if holds_lifted(tuple(kwargs.values())):
        args, kwargs = _by_position(fun, args, kwargs)
    kwargs = {name: x for name, x in kwargs.items() if name not in row.unheeded}
    args = args if row.condition is None else arguments.with_condition(row, args, value_of(args[row.condition]))
    with np.errstate(all="ignore"):
        if row.taylor is not None:
            return _by_rule(row, order, args, kwargs)
        if row.on_complex is not True and any(np.iscomplexobj(x.c[0]) for x in found):
            raise _no_rule(row.name, " of complex values")
        if row.kind == "composed":
            return _composed(row, args, kwargs)
        if row.kind in ("view", "rearrangement", "linear"):
            return _by_coefficient(row, fun, order, args, kwargs)
        if row.kind == "elementwise" and kwargs:
            raise _no_rule(row.name, f" with the option {', '.join(kwargs)}")
        if row.curvature == "none":
            return _piecewise_linear(row, order, args, kwargs)
        if row.kind == "elementwise":
            return _by_partials(row, order, args)
        if row.curvature == "cross":
            return _multilinear(row, order, args, kwargs)
    raise _no_rule(row.name)


def _composed(row, args, kwargs):
    """Apply the body of a composed function; messages name the function instead of helpers of this package."""
    token = _called.set(row.name)
    try:
        return row.variadic(*args, **kwargs)
    finally:
        _called.reset(token)


def _by_rule(row, order, args, kwargs):
    """Apply the Taylor rule stated in the row."""
    if row.taylor == COEFFICIENTWISE:
        return _by_coefficient(row, row.fun, order, args, kwargs)
    if row.taylor == PIECEWISE_LINEAR:
        if holds_lifted(args[1:]):
            raise _no_rule(row.name, " in its table")
        return _piecewise_linear(row, order, args, kwargs)
    builder = Builder(row, order)
    try:
        given = inspect.signature(row.taylor).bind(builder, order, *_stacked_arguments(row, args), **kwargs)
    except TypeError:
        raise _no_rule(row.name, f" with these options ({', '.join(kwargs)})") from None
    return row.taylor(*given.args, **given.kwargs)


def _no_rule(name, of=""):
    where = frames.where(frames.caller())
    if name.startswith("wengert."):  # a helper of this package: name what called it
        methods = {registry.dotted_name(f): f"numpy.{u.__name__}.{m}" for (u, m), f in registry.ufunc_methods.items()}
        name = _called.get() or methods.get(name, name)
    return UnsupportedFunctionError(
        f"{name} has no Taylor rule{of} ({where}): write it with elementwise functions, arithmetic, products, "
        "reductions and linear systems"
    )


def _series_in(x):
    if isinstance(x, Series):
        yield x
    elif isinstance(x, Lifted):
        raise TracedValueError(f"{x.what} and a Taylor series cannot be combined in one operation")
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from _series_in(item)


def _by_position(fun, args, kwargs):
    """Move series passed by keyword to their positions."""
    known = registry.positions.get(fun, {})
    names = {p.name: i for i, p in enumerate(signature(fun) or ())} | known
    lifted = {name: x for name, x in kwargs.items() if holds_lifted(x)}
    if any(names.get(name) != len(args) + i for i, name in enumerate(lifted)):
        raise _no_rule(registry.lookup(fun).name, f" with the option {', '.join(lifted)}")
    return (*args, *lifted.values()), {name: x for name, x in kwargs.items() if name not in lifted}


def _positions(args):
    """Yield the position of each series among the arguments: (argument, item), item -1 for the argument itself."""
    for i, x in enumerate(args):
        if isinstance(x, Series):
            yield i, -1
        elif isinstance(x, (list, tuple)):
            yield from ((i, j) for j, item in enumerate(x) if isinstance(item, Series))


def _stacked_arguments(row, args):
    """Convert sequences of scalars to arrays, and sequences that contain series to series."""
    found = list(args)
    if row.sequence and isinstance(args[0], (list, tuple)):
        found[0] = [Maker(0).array(x) if isinstance(x, (list, tuple)) and holds_lifted(x) else x for x in args[0]]
        return tuple(found)
    for i, x in enumerate(args):
        if isinstance(x, (list, tuple)) and (row.kind == "elementwise" or i in row.vjps):
            found[i] = Maker(0).array(x) if holds_lifted(x) else np.asarray(x)
    return tuple(found)


def _by_coefficient(row, fun, order, args, kwargs):
    """Apply a function that is linear in its first argument, or rearranges its elements, to each coefficient."""
    x, *rest = args
    if holds_lifted(rest):
        rest = [value_of(item) if i + 1 in row.choices else item for i, item in enumerate(rest)]
    if holds_lifted(rest):
        raise _no_rule(row.name, " in this argument")
    if isinstance(x, (list, tuple)) and not row.sequence:
        x = Maker(order).array(x)
    terms = [fun(_coefficient(x, k), *rest, **kwargs) for k in range(order + 1)]
    if isinstance(terms[0], (list, tuple)):
        return type(terms[0])([Series(list(part)) for part in zip(*terms)])
    return Series(terms)


def _coefficient(x, k):
    """The k-th coefficient of a series, or of each item of a sequence; 0 for constants and k > 0."""
    if isinstance(x, (list, tuple)):
        return type(x)([_coefficient(item, k) for item in x])
    if isinstance(x, Series):
        return x.c[k]
    return x if k == 0 else np.zeros_like(x, dtype=np.result_type(x, np.float32))


def _piecewise_linear(row, order, args, kwargs):
    """Map all coefficients beyond the first by the linear piece at t = 0, as a stack of tangents."""
    args = _stacked_arguments(row, args)
    places = list(_positions(args))
    partials = row.partials if row.kind == "elementwise" else ()
    for i, _ in places:
        if i in row.choices:
            raise _no_rule(row.name, " in this argument")
        known = partials[i : i + 1] != (None,) if partials else row.variadic is not None or i in row.vjps
        if not known:
            raise _no_rule(row.name, f" in argument {i}")
    if not places:
        return row.fun(*args, **kwargs)
    values = value_of(tuple(args))
    y = row.fun(*values, **kwargs)
    if not order:
        return Series([y])
    sources = []
    for i, j in places:
        x = args[i] if j < 0 else args[i][j]
        sources.append((i, j, np.stack(x.c[1 : order + 1])))
    found = forward.by_row(row, order, values, kwargs, sources, y, None)
    found = np.broadcast_to(aligned(found, y), (order, *np.shape(y)))
    return Series([y, *[np.copy(t) if np.ndim(t) else t for t in found]])


def _multilinear(row, order, args, kwargs):
    """Apply a function that is linear in each operand, as a convolution of the coefficients of all operands."""
    args = _stacked_arguments(row, args)
    fun = operator.matmul if any(map(matrices.is_sparse, args)) else row.fun
    places = list(_positions(args))
    found = []
    for k in range(order + 1):
        total = None
        for powers in itertools.product(range(k + 1), repeat=len(places) - 1):
            if sum(powers) > k:
                continue
            given = list(args)
            for (i, j), own in zip(places, (*powers, k - sum(powers))):
                given = forward.replaced(given, (i, j), (given[i] if j < 0 else given[i][j]).c[own])
            term = fun(*given, **kwargs)
            total = term if total is None else total + term
        found.append(total)
    return Series(found)


def _by_partials(row, order, args):
    """Apply an elementwise function by y' = sum_i p_i(y, u) u_i', with the partials of its row."""
    args = _stacked_arguments(row, args)
    known = _cache.get()
    if known is None:
        token = _cache.set({})
        try:
            return _by_partials(row, order, args)
        finally:
            _cache.reset(token)
    key = _key(row, order, args)
    if key in known:
        return Series(list(known[key][0].c))
    moving = [i for i, x in enumerate(args) if isinstance(x, Series)]
    for i in moving:
        if row.partials[i] is None:
            raise _no_rule(row.name, f" in argument {i}")
    if order == 0:
        y = Series([row.fun(*value_of(args))])
    else:
        y = _by_partials(row, order - 1, [truncated(x, order - 1) for x in args])
        given = [truncated(x, order - 1) for x in args]
        total = 0.0
        for i in moving:
            p = row.partials[i]
            p = coefficients(p(y, *given) if callable(p) else p)
            total = total + product(p, derived(args[i].c[: order + 1]), order - 1)[-1]
        y.c.append(total / order)
    known[key] = Series(list(y.c)), args  # keeps the arguments alive, since `_key` contains their ids
    return y


def _key(row, order, args):
    """Cache key of a call: the bytes of plain coefficients, the ids of traced ones."""
    terms = [a for x in args for a in (x.c[: order + 1] if isinstance(x, Series) else [x])]
    return row.fun, order, *[id(a) if var.is_var(a) else np.asarray(a).tobytes() for a in terms]
