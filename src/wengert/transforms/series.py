"""Truncated Taylor series in place of arrays: ``c[0] + c[1] t + ... + c[n] t^n``, and the rules by which functions act.

A function y = phi(u) whose derivative is a formula p(y, u) fulfils y' = p u', which gives one coefficient after the
other: k y_k = sum_j j u_j p_{k-j}.
The table at the end has these recurrences for the usual functions; other elementwise functions take p from their row
in the registry.
Functions that are linear between kinks act on each coefficient, products of operands are convolved, and linear
equations are solved coefficient by coefficient.
In every product a factor that is exactly 0 gives 0.
"""

from __future__ import annotations

import inspect
import itertools
import math
import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import reduce
from typing import Any

import numpy as np

from wengert import registry
from wengert.core import levels
from wengert.core.dispatch import dispatch, matrices
from wengert.core.dispatch.lifted import LIKE, Lifted, holds_lifted
from wengert.core.modes import forward
from wengert.core.operands import var
from wengert.errors import TracedValueError, UnsupportedFunctionError
from wengert.registry import strong
from wengert.rules.reductions import laid_along
from wengert.rules.special_python import exponentials, log_shares, log_sum, shares

#: series that partials of the registry asked for while one of them is made, by function, order and arguments
_found: ContextVar = ContextVar("wengert_series", default=None)


class Series(Lifted):
    """An array of power series; ``c`` are the coefficients, arrays of its shape."""

    __slots__ = ("c",)
    what = "a Taylor series"

    def __init__(self, c: list):
        self.c = c

    @property
    def __class__(self):
        """An array or a number, where a function asks; libraries see it as it is."""
        module = sys._getframe(1).f_globals.get("__name__", "")
        if module == "json.encoder" and not self.ndim:
            self._leave("json")
        package = module.partition(".")[0]
        kind = Series if package in ("wengert", "numpy", "scipy") else self.c[0].__class__
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
        return dispatch.written(self, repr(self.c[0]))

    def __str__(self):
        return dispatch.written(self, str(self.c[0]))

    def __format__(self, spec):
        return dispatch.written(self, format(self.c[0], spec), spec)

    def __bool__(self):
        return bool(self.c[0])

    # piecewise constant: plain results

    def __int__(self):
        return int(self.c[0])

    def __round__(self, digits=None):
        return round(self.c[0], digits)

    def __floor__(self):
        return math.floor(self.c[0])

    def __ceil__(self):
        return math.ceil(self.c[0])

    def __trunc__(self):
        return math.trunc(self.c[0])

    def _call(self, fun, args, kwargs):
        with levels.lifting(None):  # rules make arrays of coefficients
            return apply(fun, args, kwargs)

    def _item(self, key):
        key = value_of(key)
        return Series([a[key] for a in self.c])

    def _store(self, key, value):
        key = value_of(key)
        terms = coefficients(value)
        for k, a in enumerate(self.c):
            a[key] = terms[k] if k < len(terms) else 0.0

    def astype(self, dtype, copy=True, **options):
        if not copy and self.dtype == dtype:
            return self
        if np.dtype(dtype).kind not in "biufc":
            raise dispatch.dtype_error(None, dtype)
        if np.dtype(dtype).kind not in "fc":
            return value_of(self).astype(dtype)
        return Series([np.asarray(a).astype(dtype)[()] if not var.is_var(a) else a.astype(dtype) for a in self.c])


class Maker:
    """What makes arrays while a function runs on series."""

    refused = spelled = None  # errors that were noted, see `wengert.core.levels.remember`

    def __init__(self, order: int):
        self.order = order

    def made(self, array):
        """A new array as a series, into which others may be stored; integers and flags stay as they are."""
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fc":
            return array
        c = [array, *[np.zeros_like(array) for _ in range(self.order)]]
        return Series([dispatch.clean(a) for a in c] if dispatch.is_tracing() else c)

    def enclose(self, name):
        """A Taylor series inside of this one: not told apart from it."""
        raise UnsupportedFunctionError(
            f"{name} inside of another Taylor series: take derivatives of the one or the other with wengert.derivative"
        )

    def array(self, x):
        """What ``np.array`` makes of nested lists in which there are series."""
        if isinstance(x, Series):
            return np.copy(x)
        return np.stack([self.array(item) if isinstance(item, (list, tuple)) else item for item in x])


def coefficients(x) -> list:
    """Coefficients of a series; of a constant the one that is not 0."""
    return x.c if isinstance(x, Series) else [dispatch.stacked(x) if isinstance(x, (list, tuple)) else x]


def value_of(x):
    """The value at t = 0, in lists and tuples too."""
    if isinstance(x, Series):
        return x.c[0]
    if isinstance(x, (list, tuple)) and holds_lifted(x):
        return type(x)([value_of(item) for item in x])
    return x


def truncated(x, order):
    return Series(x.c[: order + 1]) if isinstance(x, Series) else x


# ---------------------------------------------------------------------------------------------- functions


def apply(fun: Callable, args: tuple, kwargs: dict) -> Any:
    """A function of series and constants."""
    found = [*_series_in(args), *_series_in(tuple(kwargs.values()))]
    order = min(x.order for x in found)
    if fun in LIKE:
        return Maker(order).made(fun(*value_of(args), **kwargs))
    rule = RULES.get(fun)
    row = registry.lookup(fun)
    if rule is None and (row is None or row.kind == "refuse"):
        raise _no_rule(registry.dotted_name(fun))
    if row is not None and row.kind == "constant":
        if fun in dispatch.WRITERS:
            dispatch.written(found[0], "")
        return fun(*value_of(args), **{name: value_of(x) for name, x in kwargs.items()})
    if holds_lifted(tuple(kwargs.values())):
        args, kwargs = _by_position(fun, args, kwargs)
    if row is not None:
        kwargs = {name: x for name, x in kwargs.items() if name not in row.unheeded}
        args = args if row.condition is None else dispatch.with_condition(row, args, value_of(args[row.condition]))
    if rule is None and row.on_complex is not True and any(np.iscomplexobj(x.c[0]) for x in found):
        raise _no_rule(row.name, " of complex values")
    with np.errstate(all="ignore"):
        if rule is not None:
            try:
                given = inspect.signature(rule).bind(order, *args, **kwargs)
            except TypeError:
                raise _no_rule(registry.dotted_name(fun), f" with these options ({', '.join(kwargs)})") from None
            return rule(*given.args, **given.kwargs)
        if row.kind == "composed":
            return row.variadic(*args, **kwargs)
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


def _no_rule(name, of=""):
    where = dispatch.where(dispatch.caller())
    return UnsupportedFunctionError(
        f"{name} has no Taylor rule{of} ({where}): write it with elementwise functions, arithmetic, products, "
        "reductions and numpy.linalg.solve"
    )


def _series_in(x):
    if isinstance(x, Series):
        yield x
    elif isinstance(x, Lifted):
        raise TracedValueError(f"{x.what} and a Taylor series do not go together")
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from _series_in(item)


def _by_position(fun, args, kwargs):
    """Series that were given by keyword, at their positions."""
    known = registry.positions.get(fun, {})
    names = {p.name: i for i, p in enumerate(dispatch.signature(fun) or ())} | known
    lifted = {name: x for name, x in kwargs.items() if holds_lifted(x)}
    if any(names.get(name) != len(args) + i for i, name in enumerate(lifted)):
        raise _no_rule(registry.dotted_name(fun), f" with the option {', '.join(lifted)}")
    return (*args, *lifted.values()), {name: x for name, x in kwargs.items() if name not in lifted}


def _places(args):
    """Where series stand among the arguments: (position, item), item -1 for the argument itself."""
    for i, x in enumerate(args):
        if isinstance(x, Series):
            yield i, -1
        elif isinstance(x, (list, tuple)):
            yield from ((i, j) for j, item in enumerate(x) if isinstance(item, Series))


def _stacked_arguments(row, args):
    """Arguments in which a list of numbers is an array, and one of numbers and series a series."""
    found = list(args)
    if row.sequence and isinstance(args[0], (list, tuple)):
        found[0] = [Maker(0).array(x) if isinstance(x, (list, tuple)) and holds_lifted(x) else x for x in args[0]]
        return tuple(found)
    for i, x in enumerate(args):
        if isinstance(x, (list, tuple)) and (row.kind == "elementwise" or i in row.vjps):
            found[i] = Maker(0).array(x) if holds_lifted(x) else np.asarray(x)
    return tuple(found)


def _by_coefficient(row, fun, order, args, kwargs):
    """A function that is linear in its first argument, or moves elements of it."""
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
    """The k-th coefficient of a series, or of those in a sequence; of constants 0."""
    if isinstance(x, (list, tuple)):
        return type(x)([_coefficient(item, k) for item in x])
    if isinstance(x, Series):
        return x.c[k]
    return x if k == 0 else np.zeros_like(x, dtype=np.result_type(x, np.float32))


def _piecewise_linear(row, order, args, kwargs):
    """Each coefficient by the linear piece at t = 0, all of them at once."""
    args = _stacked_arguments(row, args)
    places = list(_places(args))
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
    found = np.broadcast_to(forward.aligned(found, y), (order, *np.shape(y)))
    return Series([y, *[np.copy(t) if np.ndim(t) else t for t in found]])


def _multilinear(row, order, args, kwargs):
    """A function that is linear in each operand alone: the convolution of all of them."""
    args = _stacked_arguments(row, args)
    places = list(_places(args))
    found = []
    for k in range(order + 1):
        total = None
        for powers in itertools.product(range(k + 1), repeat=len(places) - 1):
            if sum(powers) > k:
                continue
            given = list(args)
            for (i, j), own in zip(places, (*powers, k - sum(powers))):
                given = forward.replaced(given, (i, j), (given[i] if j < 0 else given[i][j]).c[own])
            term = row.fun(*given, **kwargs)
            total = term if total is None else total + term
        found.append(total)
    return Series(found)


def _by_partials(row, order, args):
    """An elementwise function by y' = sum_i p_i(y, u) u_i', with the partials of its row."""
    args = _stacked_arguments(row, args)
    known = _found.get()
    if known is None:
        token = _found.set({})
        try:
            return _by_partials(row, order, args)
        finally:
            _found.reset(token)
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
    known[key] = Series(list(y.c)), args  # which are kept, so that no id is used again
    return y


def _key(row, order, args):
    """What tells calls apart: numbers by their bytes, operands of a derivative around this by what they are."""
    terms = [a for x in args for a in (x.c[: order + 1] if isinstance(x, Series) else [x])]
    return row.fun, order, *[id(a) if var.is_var(a) else np.asarray(a).tobytes() for a in terms]


# ---------------------------------------------------------------------------------------------- lists of coefficients


def _sum(pairs, like=None):
    """Sum of products, in which 0 times inf is 0; 0 in the form of `like` if there are none."""
    pairs = list(pairs)
    if not pairs:
        return np.zeros_like(like)
    total = reduce(np.add, [a * b for a, b in pairs])
    if np.any(np.isnan(total)):
        total = reduce(np.add, [strong(a, b) for a, b in pairs])
    return total


def _over(a, b):
    """a / b, and 0 where `a` is."""
    found = a / b
    return np.where(np.equal(a, 0), a, found) if np.any(np.isnan(found)) else found


def product(a, b, order):
    """Coefficients of a product; lists may be shorter, with zeros after their end."""
    found = []
    for k in range(order + 1):
        pairs = [(a[j], b[k - j]) for j in range(min(k, len(a) - 1) + 1) if k - j < len(b)]
        found.append(_sum(pairs, found[0] if found else None))
    return found


def derived(u):
    """Coefficients of u'."""
    return [k * u[k] for k in range(1, len(u))] or [np.zeros_like(u[0])]


def plus(a, constant):
    return [a[0] + constant, *a[1:]]


def scaled(a, factor):
    return [x * factor for x in a]


def quotient(a, b, order):
    """a / b."""
    y = [a[0] / b[0]]
    for k in range(1, order + 1):
        lower = _sum(((b[j], y[k - j]) for j in range(1, min(k, len(b) - 1) + 1)), y[0])
        y.append(_over((a[k] if k < len(a) else 0.0) - lower, b[0]))
    return y


def integrated(y, p, u, k):
    """The k-th coefficient of y with y' = p u', from lower ones of p."""
    return _sum((((j / k) * u[j], p[k - j]) for j in range(1, k + 1)), y[0])


def divided(y0, u, q, order):
    """y with q y' = u'."""
    y = [y0]
    for k in range(1, order + 1):
        lower = _sum((((j / k) * y[j], q[k - j]) for j in range(1, k) if k - j < len(q)), y0)
        y.append(_over(u[k] - lower, q[0]))
    return y


def root(y0, u, order):
    """y with y^2 = u."""
    y = [y0]
    for k in range(1, order + 1):
        y.append(_over(u[k] - _sum(((y[j], y[k - j]) for j in range(1, k)), y0), 2 * y[0]))
    return y


def exponential(y0, u, order):
    """y with y' = y u'."""
    y = [y0]
    for k in range(1, order + 1):
        y.append(integrated(y, y, u, k))
    return y


def circular(s0, c0, u, order, sign):
    """s and c with s' = c u' and c' = sign s u'."""
    s, c = [s0], [c0]
    for k in range(1, order + 1):
        s, c = [*s, integrated(s, c, u, k)], [*c, sign * integrated(c, s, u, k)]
    return s, c


def tangent(y0, w0, u, order, sign):
    """y with y' = w u' and w = 1 + sign y^2."""
    y, w = [y0], [w0]
    for k in range(1, order + 1):
        y.append(integrated(y, w, u, k))
        w.append(sign * _sum((y[j], y[k - j]) for j in range(k + 1)))
    return y


def raised(y0, u, exponent, order):
    """y = u^exponent by u y' = exponent u' y."""
    y = [y0]
    for k in range(1, order + 1):
        terms = _sum((((exponent * j - (k - j)) * u[j], y[k - j]) for j in range(1, k + 1)), y0)
        y.append(_over(terms / k, u[0]))
    return y


# ---------------------------------------------------------------------------------------------- the table

#: rules by function: (order, *args, **kwargs) -> Series
RULES: dict[Callable, Callable] = {}


def rule(*funs):
    def declare(body):
        RULES.update(dict.fromkeys(funs, body))
        return body

    return declare


def _unary(fun, recurrence):
    """A function of one series u, by its coefficients: ``recurrence(y0, u, order)``."""
    RULES[fun] = lambda order, x: Series(recurrence(fun(x.c[0]), x.c, order))


def _log(rate):
    return lambda y0, u, n: divided(y0, scaled(u, 1 / rate), u, n)


def _arcsine(sign):
    def recurrence(y0, u, n):
        q = root(np.sqrt((1 - u[0]) * (1 + u[0])), _one_minus_square(u, n), n)
        return divided(y0, scaled(u, sign), q, n)

    return recurrence


def _one_minus_square(u, n):
    return product(plus(scaled(u, -1), 1), plus(u, 1), n)


def _one_plus_square(u, n):
    return plus(product(u, u, n), 1)


def _arccosh(y0, u, n):
    q = product(root(np.sqrt(u[0] - 1), plus(u, -1), n), root(np.sqrt(u[0] + 1), plus(u, 1), n), n)
    return divided(y0, u, q, n)


_unary(np.square, lambda y0, u, n: product(u, u, n))
_unary(np.reciprocal, lambda y0, u, n: quotient([np.ones_like(u[0])], u, n))
_unary(np.sqrt, root)
_unary(np.cbrt, lambda y0, u, n: raised(y0, u, 1 / 3, n))
_unary(np.exp, exponential)
_unary(np.exp2, lambda y0, u, n: exponential(y0, scaled(u, math.log(2)), n))
_unary(np.expm1, lambda y0, u, n: [y0, *exponential(np.exp(u[0]), u, n)[1:]])
_unary(np.log, _log(1.0))
_unary(np.log2, _log(math.log(2)))
_unary(np.log10, _log(math.log(10)))
_unary(np.log1p, lambda y0, u, n: divided(y0, u, plus(u, 1), n))
_unary(np.sin, lambda y0, u, n: circular(y0, np.cos(u[0]), u, n, -1)[0])
_unary(np.cos, lambda y0, u, n: circular(np.sin(u[0]), y0, u, n, -1)[1])
_unary(np.tan, lambda y0, u, n: tangent(y0, 1 + y0 * y0, u, n, 1))
_unary(np.arcsin, _arcsine(1))
_unary(np.arccos, _arcsine(-1))
_unary(np.arctan, lambda y0, u, n: divided(y0, u, _one_plus_square(u, n), n))
_unary(np.sinh, lambda y0, u, n: circular(y0, np.cosh(u[0]), u, n, 1)[0])
_unary(np.cosh, lambda y0, u, n: circular(np.sinh(u[0]), y0, u, n, 1)[1])
_unary(np.tanh, lambda y0, u, n: tangent(y0, np.square(2 / (np.exp(u[0]) + np.exp(-u[0]))), u, n, -1))
_unary(np.arcsinh, lambda y0, u, n: divided(y0, u, root(np.hypot(u[0], 1.0), _one_plus_square(u, n), n), n))
_unary(np.arccosh, _arccosh)
_unary(np.arctanh, lambda y0, u, n: divided(y0, u, _one_minus_square(u, n), n))


@rule(np.multiply)
def _multiply(order, a, b):
    a, b = coefficients(a), coefficients(b)
    return Series([a[0] * b[0], *product(a, b, order)[1:]])  # of values 0 times inf is NaN, as NumPy has it


@rule(np.divide)
def _divide(order, a, b):
    if not isinstance(b, Series):
        b = coefficients(b)[0]
        return Series([x / b for x in a.c[: order + 1]])
    return Series(quotient(coefficients(a), b.c, order))


@rule(np.power, np.float_power)
def _power(order, a, b):
    base, exponent = coefficients(a), coefficients(b)
    y0 = np.power(base[0], exponent[0])
    if isinstance(b, Series):  # exp(b log a)
        logarithm = _log(1.0)(np.log(base[0]), base, order) if len(base) > 1 else [np.log(base[0])]
        return Series(exponential(y0, product(exponent, logarithm, order), order))
    integers = np.unique(exponent[0]) if not dispatch.holds_traced(exponent[0]) else ()
    if not (np.size(integers) <= 4 and np.all(integers == np.rint(integers)) and np.size(integers)):
        return Series(raised(y0, base, exponent[0], order))
    found = None
    for n in integers:  # by products, also where the base is 0
        power = _integer_power(base, abs(int(n)), order)
        power = power if n >= 0 else quotient([np.ones_like(base[0])], power, order)
        here = np.equal(exponent[0], n)
        found = power if found is None else [np.where(here, x, y) for x, y in zip(power, found)]
    return Series([y0, *[x + np.zeros_like(y0) for x in found[1:]]])


def _integer_power(u, n, order):
    found = [np.ones_like(u[0])] + [np.zeros_like(u[0])] * order
    while n:
        found = product(found, u, order) if n & 1 else found
        u = product(u, u, order) if n > 1 else u
        n >>= 1
    return found


#: coefficients of sin(z) / z in powers of z^2
_SINC = [(-1) ** k / math.factorial(2 * k + 1) for k in range(30)]


@rule(np.sinc)
def _sinc(order, x):
    z = scaled(x.c, math.pi)
    square = product(z, z, order)
    near = [np.zeros_like(a) for a in z]
    for term in reversed(_SINC):
        near = plus(product(near, square, order), term)
    far = quotient(circular(np.sin(z[0]), np.cos(z[0]), z, order, -1)[0], z, order)
    is_near = np.abs(z[0]) < math.pi
    return Series([np.sinc(x.c[0]), *[np.where(is_near, a, b) for a, b in zip(near[1:], far[1:])]])


@rule(np.hypot)
def _hypot(order, a, b):
    a, b = coefficients(a), coefficients(b)
    total = [x + y for x, y in zip(product(a, a, order), product(b, b, order))]
    return Series(root(np.hypot(a[0], b[0]), total, order))


@rule(np.arctan2)
def _arctan2(order, a, b):
    y0 = np.arctan2(value_of(a), value_of(b))
    if not order:
        return Series([y0])
    a, b = ([*x, *[np.zeros_like(x[0])] * (order + 1 - len(x))] for x in map(coefficients, (a, b)))
    q = [x + y for x, y in zip(product(a, a, order), product(b, b, order))]
    turned = [x - y for x, y in zip(product(b, derived(a), order - 1), product(a, derived(b), order - 1))]
    return Series(divided(y0, [0.0, *[x / (k + 1) for k, x in enumerate(turned)]], q, order))


@rule(np.prod)
def _prod(order, x, axis=None, keepdims=np._NoValue, initial=None):
    if isinstance(axis, tuple):
        raise _no_rule("numpy.prod", " over several axes")
    line = np.ravel(x) if axis is None else np.moveaxis(x, axis, 0)
    found = reduce(np.multiply, list(line), 1.0 if initial is None else initial) if len(line) else np.prod(line.c[0], 0)
    if keepdims is np._NoValue or not keepdims:
        return found
    return np.reshape(found, (1,) * x.ndim) if axis is None else np.expand_dims(found, axis)


@rule(np.var)
def _var(order, x, axis=None, ddof=0, keepdims=False):
    away = x - np.mean(x, axis=axis, keepdims=True)
    squares = np.mean(np.square(away), axis=axis, keepdims=keepdims is not np._NoValue and keepdims)
    count = x.size / max(squares.size, 1)
    return squares * (count / (count - ddof) if count > ddof else math.inf)


@rule(np.average)
def _average(order, a, axis=None, weights=None, keepdims=False):
    a, axis, weights = _stacked_arguments(registry.lookup(np.average), (a, axis, weights))
    keepdims = keepdims is not np._NoValue and keepdims
    if weights is None:
        return np.mean(a, axis=axis, keepdims=keepdims)
    weights = np.broadcast_to(laid_along(weights, a, axis), np.shape(a))
    return np.sum(a * weights, axis, keepdims=keepdims) / np.sum(weights, axis, keepdims=keepdims)


@rule(np.std)
def _std(order, x, axis=None, ddof=0, keepdims=False):
    return np.sqrt(_var(order, x, axis, ddof, keepdims))


@rule(np.linalg.norm, np.linalg.vector_norm)
def _norm(order, x, ord=None, axis=None, keepdims=False):
    if ord not in (None, 2) or (ord == 2 and axis is None and x.ndim != 1):
        raise _no_rule("numpy.linalg.norm", f" with ord={ord!r}")
    return np.sqrt(np.sum(np.square(x), axis=axis, keepdims=keepdims))


@rule(np.interp)
def _interp(order, x, xp, fp, left=None, right=None):
    if holds_lifted((xp, fp, left, right)):
        raise _no_rule("numpy.interp", " in its table")
    return _piecewise_linear(registry.lookup(np.interp), order, (x, xp, fp, left, right), {})


for _fun in (np.real, np.imag, np.conjugate):
    RULES[_fun] = lambda order, x, fun=_fun: Series([fun(a) for a in x.c])


@rule(log_sum)
def _log_sum(order, a, b, axis):
    total = exponentials(a, b, axis)[1]
    rest = np.log(np.abs(total)).c[1:] if isinstance(total, Series) else []
    y = log_sum(value_of(a), value_of(b), axis)
    return Series([y, *[np.reshape(x, np.shape(y)) for x in rest]])


@rule(shares)
def _shares(order, x, axis):
    e, total = exponentials(x, np.ones(()), axis)
    return Series([shares(x.c[0], axis), *(e / total).c[1:]])


@rule(log_shares)
def _log_shares(order, x, axis):
    y = x - np.log(exponentials(x, np.ones(()), axis)[1])
    return Series([log_shares(x.c[0], axis), *y.c[1:]])


# ---- matrices


@rule(np.matmul)
def _matmul(order, a, b):
    if not isinstance(a, Lifted) and matrices.is_sparse(a):
        return Series([a @ x for x in b.c])
    if not isinstance(b, Lifted) and matrices.is_sparse(b):
        return Series([x @ b for x in a.c])
    return _multilinear(registry.lookup(np.matmul), order, (a, b), {})


@rule(np.linalg.solve)
def _solve(order, a, b):
    a, b = coefficients(a), coefficients(b)
    y = [np.linalg.solve(a[0], b[0])]
    for k in range(1, order + 1):
        right = b[k] if k < len(b) else np.zeros_like(b[0])
        for j in range(1, min(k, len(a) - 1) + 1):
            right = right - (np.matmul(a[j], y[k - j]) if np.ndim(b[0]) != 1 else (a[j] @ y[k - j]))
        y.append(np.linalg.solve(a[0], right))
    return Series(y)


@rule(np.linalg.inv)
def _inv(order, a):
    n = a.shape[-1]
    found = _solve(order, a, np.broadcast_to(np.eye(n, dtype=a.dtype), a.shape))
    return Series([np.linalg.inv(a.c[0]), *found.c[1:]])


@rule(np.linalg.matrix_power)
def _matrix_power(order, a, n):
    if n < 0:
        a, n = np.linalg.inv(a), -n
    if not n:
        return Maker(order).made(np.linalg.matrix_power(value_of(a), 0))
    return reduce(np.matmul, [a] * n)


def _relative_growth(order, a):
    """Coefficients of (log det a)', one fewer than those of `a`."""
    if not order:
        return []
    inverse = truncated(np.linalg.inv(a), order - 1)
    return np.sum(inverse * np.swapaxes(Series(derived(a.c)), -1, -2), axis=(-2, -1)).c


@rule(np.linalg.det)
def _det(order, a):
    q = _relative_growth(order, a)
    y = [np.linalg.det(a.c[0])]
    for k in range(1, order + 1):
        y.append(_sum((q[j], y[k - 1 - j]) for j in range(k)) / k)
    return Series(y)


@rule(np.linalg.slogdet)
def _slogdet(order, a):
    found = np.linalg.slogdet(a.c[0])
    q = _relative_growth(order, a)
    return type(found)(found.sign, Series([found.logabsdet, *[x / (k + 1) for k, x in enumerate(q)]]))


@rule(np.linalg.cholesky)
def _cholesky(order, a):
    first = np.linalg.cholesky(a.c[0])
    found = [first]
    half = np.tril(np.ones(a.shape[-2:])) - 0.5 * np.eye(a.shape[-1])
    for k in range(1, order + 1):
        rest = (a.c[k] + np.swapaxes(a.c[k], -1, -2)) / 2
        for j in range(1, k):
            rest = rest - found[j] @ np.swapaxes(found[k - j], -1, -2)
        inner = np.linalg.solve(first, np.swapaxes(np.linalg.solve(first, rest), -1, -2))
        found.append(first @ (inner * half))
    return Series(found)
