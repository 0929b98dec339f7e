"""Taylor rules: how functions act on truncated power series.

A series is the list of its coefficients, arrays of one shape.
If y = phi(u) satisfies a differential equation in u, each coefficient of y follows from lower ones by a recurrence;
those of the common functions are here, named after the equation.
A row states its rule in the column ``taylor``.
A rule is a function of ``(series, order, *args, **kwargs)``: ``series(c)`` builds a series from coefficients, ``x.c``
are the coefficients of a series, ``series.coefficients(x)`` those of a series or constant, ``series.value(x)`` is the
value at t = 0, ``series.fun`` the function itself, and ``series.refused(of)`` the error for unsupported arguments.
Products are strong: a factor that is exactly 0 gives 0.

References: Griewank and Walther (2008), Evaluating Derivatives, tables 13.1 and 13.2. doi:10.1137/1.9780898717761;
Knuth, The Art of Computer Programming, volume 2, section 4.7.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import accumulate

import numpy as np

from wengert.registry import strong

#: apply the function to each coefficient
COEFFICIENTWISE = "coefficientwise"
#: piecewise linear in the first argument; the others are constants
PIECEWISE_LINEAR = "piecewise linear"


def recurrence(rule):
    """Taylor rule of a function of one operand, from ``rule(y0, u, order)``: coefficients of y from those of u."""

    def taylor(series, order, x):
        return series(rule(series.fun(x.c[0]), x.c, order))

    return taylor


# ---- arithmetic of coefficients


def total_of(pairs, like=None):
    """Sum products of pairs with 0 * inf = 0; return zeros like `like` if there are none."""
    pairs = list(pairs)
    if not pairs:
        return np.zeros_like(like)
    total = reduce(np.add, [a * b for a, b in pairs])
    if np.any(np.isnan(total)):
        total = reduce(np.add, [strong(a, b) for a, b in pairs])
    return total


def over(a, b):
    """Return a / b, and 0 where `a` is 0."""
    found = a / b
    return np.where(np.equal(a, 0), a, found) if np.any(np.isnan(found)) else found


def product(a, b, order):
    """Coefficients of a product; shorter operands are padded with zeros."""
    found = []
    for k in range(order + 1):
        pairs = [(a[j], b[k - j]) for j in range(min(k, len(a) - 1) + 1) if k - j < len(b)]
        found.append(total_of(pairs, found[0] if found else None))
    return found


def derived(u):
    """Coefficients of u'."""
    return [k * u[k] for k in range(1, len(u))] or [np.zeros_like(u[0])]


def plus(a, constant):
    return [a[0] + constant, *a[1:]]


def scaled(a, factor):
    return [x * factor for x in a]


def quotient(a, b, order):
    """Coefficients of a / b."""
    y = [a[0] / b[0]]
    for k in range(1, order + 1):
        lower = total_of(((b[j], y[k - j]) for j in range(1, min(k, len(b) - 1) + 1)), y[0])
        y.append(over((a[k] if k < len(a) else 0.0) - lower, b[0]))
    return y


def integrated(y, p, u, k):
    """Return coefficient k of y with y' = p u', from lower coefficients of p."""
    return total_of((((j / k) * u[j], p[k - j]) for j in range(1, k + 1)), y[0])


def divided(y0, u, q, order):
    """Solve q y' = u'."""
    y = [y0]
    for k in range(1, order + 1):
        lower = total_of((((j / k) * y[j], q[k - j]) for j in range(1, k) if k - j < len(q)), y0)
        y.append(over(u[k] - lower, q[0]))
    return y


def root(y0, u, order):
    """Solve y^2 = u."""
    y = [y0]
    for k in range(1, order + 1):
        y.append(over(u[k] - total_of(((y[j], y[k - j]) for j in range(1, k)), y0), 2 * y[0]))
    return y


def exponential(y0, u, order):
    """Solve y' = y u'."""
    y = [y0]
    for k in range(1, order + 1):
        y.append(integrated(y, y, u, k))
    return y


def circular(s0, c0, u, order, sign):
    """Solve s' = c u' and c' = sign s u'."""
    s, c = [s0], [c0]
    for k in range(1, order + 1):
        s, c = [*s, integrated(s, c, u, k)], [*c, sign * integrated(c, s, u, k)]
    return s, c


def tangent(y0, w0, u, order, sign):
    """Solve y' = w u' with w = 1 + sign y^2."""
    y, w = [y0], [w0]
    for k in range(1, order + 1):
        y.append(integrated(y, w, u, k))
        w.append(sign * total_of((y[j], y[k - j]) for j in range(k + 1)))
    return y


def raised(y0, u, exponent, order):
    """Solve u y' = exponent u' y, for y = u^exponent."""
    y = [y0]
    for k in range(1, order + 1):
        terms = total_of((((exponent * j - (k - j)) * u[j], y[k - j]) for j in range(1, k + 1)), y0)
        y.append(over(terms / k, u[0]))
    return where_zero(y, u, exponent)


def where_zero(y, u, exponent):
    """Replace coefficients of u^exponent where the value of u is 0, by which the recurrences divide.

    They are sums of products of the coefficients of (v + t)^exponent at v = 0, which are 0 or infinite unless the
    exponent is an integer, and those of powers of u. The highest such power dominates.
    """
    is_zero = np.equal(u[0], 0)
    if not np.any(is_zero):
        return y
    order = len(y) - 1
    found, slope = [np.zeros_like(y[0])] * (order + 1), 1.0
    powers, moving = [1.0] + [0.0] * order, [0.0, *u[1:]]
    for j in range(1, order + 1):
        powers, slope = product(powers, moving, order), slope * (exponent - (j - 1)) / j
        outer = np.where(np.equal(exponent, j), slope, np.where(np.less(exponent, j) & (slope != 0), slope * np.inf, 0))
        found = [np.where(np.equal(p, 0) | np.equal(outer, 0), z, outer * p) for z, p in zip(found, powers)]
    return [y[0], *[np.where(is_zero, z, x)[()] for z, x in zip(found[1:], y[1:])]]


def logarithm(rate):
    """Recurrence of log(u) / rate."""
    return lambda y0, u, n: divided(y0, scaled(u, 1 / rate), u, n)


def arcsine(sign):
    """Recurrence of arcsin for sign 1, of arccos for -1."""

    def recurrence(y0, u, n):
        q = root(np.sqrt((1 - u[0]) * (1 + u[0])), one_minus_square(u, n), n)
        return divided(y0, scaled(u, sign), q, n)

    return recurrence


def one_minus_square(u, n):
    return product(plus(scaled(u, -1), 1), plus(u, 1), n)


def one_plus_square(u, n):
    return plus(product(u, u, n), 1)


@recurrence
def inverse_cosh(y0, u, n):
    q = product(root(np.sqrt(u[0] - 1), plus(u, -1), n), root(np.sqrt(u[0] + 1), plus(u, 1), n), n)
    return divided(y0, u, q, n)


# ---- functions of one operand

square = recurrence(lambda y0, u, n: product(u, u, n))
reciprocal = recurrence(lambda y0, u, n: quotient([np.ones_like(u[0])], u, n))
cube_root = recurrence(lambda y0, u, n: raised(y0, u, 1 / 3, n))
exponential_base_2 = recurrence(lambda y0, u, n: exponential(y0, scaled(u, math.log(2)), n))
exponential_minus_1 = recurrence(lambda y0, u, n: [y0, *exponential(np.exp(u[0]), u, n)[1:]])
logarithm_base_2 = recurrence(logarithm(math.log(2)))
logarithm_base_10 = recurrence(logarithm(math.log(10)))
logarithm_of_1_plus = recurrence(lambda y0, u, n: divided(y0, u, plus(u, 1), n))
sine = recurrence(lambda y0, u, n: circular(y0, np.cos(u[0]), u, n, -1)[0])
cosine = recurrence(lambda y0, u, n: circular(np.sin(u[0]), y0, u, n, -1)[1])
tan = recurrence(lambda y0, u, n: tangent(y0, 1 + y0 * y0, u, n, 1))
inverse_sine = recurrence(arcsine(1))
inverse_cosine = recurrence(arcsine(-1))
arctangent = recurrence(lambda y0, u, n: divided(y0, u, one_plus_square(u, n), n))
hyperbolic_sine = recurrence(lambda y0, u, n: circular(y0, np.cosh(u[0]), u, n, 1)[0])
hyperbolic_cosine = recurrence(lambda y0, u, n: circular(np.sinh(u[0]), y0, u, n, 1)[1])
hyperbolic_tangent = recurrence(lambda y0, u, n: tangent(y0, np.square(2 / (np.exp(u[0]) + np.exp(-u[0]))), u, n, -1))
inverse_sinh = recurrence(lambda y0, u, n: divided(y0, u, root(np.hypot(u[0], 1.0), one_plus_square(u, n), n), n))
inverse_tanh = recurrence(lambda y0, u, n: divided(y0, u, one_minus_square(u, n), n))

#: coefficients of sin(z) / z in powers of z^2
SINC = [(-1) ** k / math.factorial(2 * k + 1) for k in range(30)]


@recurrence
def sinc(y0, u, n):
    z = scaled(u, math.pi)
    square = product(z, z, n)
    near = [np.zeros_like(a) for a in z]
    for term in reversed(SINC):
        near = plus(product(near, square, n), term)
    far = quotient(circular(np.sin(z[0]), np.cos(z[0]), z, n, -1)[0], z, n)
    is_near = np.abs(z[0]) < math.pi
    return [y0, *[np.where(is_near, a, b) for a, b in zip(near[1:], far[1:])]]


# ---- elementwise functions of two operands


def multiply(series, order, a, b):
    a, b = series.coefficients(a), series.coefficients(b)
    return series([a[0] * b[0], *product(a, b, order)[1:]])  # the value itself is NaN for 0 * inf, as in NumPy


def divide(series, order, a, b):
    if not series.is_series(b):
        b = series.coefficients(b)[0]
        return series([x / b for x in a.c[: order + 1]])
    return series(quotient(series.coefficients(a), b.c, order))


def power(series, order, a, b):
    base, exponent = series.coefficients(a), series.coefficients(b)
    y0 = np.power(base[0], exponent[0])
    if series.is_series(b):  # exp(b log a)
        log = logarithm(1.0)(np.log(base[0]), base, order) if len(base) > 1 else [np.log(base[0])]
        return series(where_zero(exponential(y0, product(exponent, log, order), order), base, exponent[0]))
    integers = np.unique(exponent[0]) if not series.is_traced(exponent[0]) else ()
    if not (np.size(integers) <= 4 and np.all(integers == np.rint(integers)) and np.size(integers)):
        return series(raised(y0, base, exponent[0], order))
    found = None
    for n in integers:  # repeated products hold also where the base is 0
        part = integer_power(base, abs(int(n)), order)
        part = part if n >= 0 else quotient([np.ones_like(base[0])], part, order)
        here = np.equal(exponent[0], n)
        found = part if found is None else [np.where(here, x, y) for x, y in zip(part, found)]
    return series([y0, *[x + np.zeros_like(y0) for x in found[1:]]])


def integer_power(u, n, order):
    """Return u^n by repeated squaring."""
    found = [np.ones_like(u[0])] + [np.zeros_like(u[0])] * order
    while n:
        found = product(found, u, order) if n & 1 else found
        u = product(u, u, order) if n > 1 else u
        n >>= 1
    return found


def hypotenuse(series, order, a, b):
    a, b = series.coefficients(a), series.coefficients(b)
    total = [x + y for x, y in zip(product(a, a, order), product(b, b, order))]
    return series(root(np.hypot(a[0], b[0]), total, order))


def angle(series, order, a, b):
    """Taylor rule of ``arctan2``, whose derivative is (b a' - a b') / (a^2 + b^2)."""
    y0 = np.arctan2(series.value(a), series.value(b))
    if not order:
        return series([y0])
    a, b = ([*x, *[np.zeros_like(x[0])] * (order + 1 - len(x))] for x in map(series.coefficients, (a, b)))
    q = [x + y for x, y in zip(product(a, a, order), product(b, b, order))]
    turned = [x - y for x, y in zip(product(b, derived(a), order - 1), product(a, derived(b), order - 1))]
    return series(divided(y0, [0.0, *[x / (k + 1) for k, x in enumerate(turned)]], q, order))


# ---- reductions, composed of other functions


def total(series, order, x, axis=None, dtype=None, out=None, keepdims=np._NoValue, initial=None, where=True):
    """Taylor rule of `sum`, which adds `initial` to the value only."""
    options = {name: y for name, y in (("dtype", dtype), ("keepdims", keepdims)) if y is not None}
    if where is not True:
        options["where"] = series.value(where)
    added = [] if initial is None or initial is np._NoValue else series.coefficients(initial)
    terms = [
        np.sum(c, axis, **options, **({"initial": added[0]} if added and not k else {}))
        for k, c in enumerate(series.coefficients(x))
    ]
    return series([y + added[k] if 0 < k < len(added) else y for k, y in enumerate(terms)])


def prod(series, order, x, axis=None, keepdims=np._NoValue, initial=None):
    if isinstance(axis, tuple):
        raise series.refused(" over several axes")
    line = np.ravel(x) if axis is None or not x.ndim else np.moveaxis(x, axis, 0)
    found = reduce(np.multiply, list(line), 1.0 if initial is None else initial) if len(line) else np.prod(line.c[0], 0)
    if keepdims is np._NoValue or not keepdims:
        return found
    return np.reshape(found, (1,) * x.ndim) if axis is None or not x.ndim else np.expand_dims(found, axis)


def cumulative_product(series, order, x, axis=None, dtype=None, out=None, include_initial=False):
    """Taylor rule of `cumprod` and `cumulative_prod`: one product for each element."""
    flat = np.ravel(x) if axis is None or not x.ndim else np.moveaxis(x, axis, 0)
    found = list(accumulate(list(flat), np.multiply))
    if include_initial:
        found.insert(0, np.ones(flat.shape[1:], flat.dtype))
    joined = np.stack(found) if found else flat
    return joined if axis is None or not x.ndim else np.moveaxis(joined, 0, axis)


def squared_size(x):
    """Return the squares of the absolute values."""
    return np.real(x * np.conj(x)) if x.dtype.kind == "c" else np.square(x)


def variance(series, order, x, axis=None, ddof=0, keepdims=False):
    away = x - np.mean(x, axis=axis, keepdims=True)
    squares = np.mean(squared_size(away), axis=axis, keepdims=keepdims is not np._NoValue and keepdims)
    count = x.size / max(squares.size, 1)
    return squares * (count / (count - ddof) if count > ddof else math.inf)


def deviation(series, order, x, axis=None, ddof=0, keepdims=False):
    return np.sqrt(variance(series, order, x, axis, ddof, keepdims))


def norm(series, order, x, ord=None, axis=None, keepdims=False):
    if ord not in (None, 2) or (ord == 2 and axis is None and x.ndim != 1):
        raise series.refused(f" with ord={ord!r}")
    return np.sqrt(np.sum(squared_size(x), axis=axis, keepdims=keepdims))


# ---- matrices


def solve(series, order, a, b):
    """Solve A y = b order by order: A_0 y_k = b_k - sum_j A_j y_{k-j}."""
    a, b = series.coefficients(a), series.coefficients(b)
    is_vector = np.ndim(b[0]) == 1 and np.ndim(a[0]) > 2  # one right-hand side of a stack of systems
    y = [np.linalg.solve(a[0], b[0])]
    for k in range(1, order + 1):
        right = b[k] if k < len(b) else np.zeros_like(b[0])
        for j in range(1, min(k, len(a) - 1) + 1):
            right = right - ((a[j] @ y[k - j][..., None])[..., 0] if is_vector else a[j] @ y[k - j])
        y.append(np.linalg.solve(a[0], right[..., None])[..., 0] if is_vector else np.linalg.solve(a[0], right))
    return series(y)


def inverse(series, order, a):
    n = a.shape[-1]
    found = solve(series, order, a, np.broadcast_to(np.eye(n, dtype=a.dtype), a.shape))
    return series([np.linalg.inv(a.c[0]), *found.c[1:]])


def matrix_power(series, order, a, n):
    if n < 0:
        a, n = np.linalg.inv(a), -n
    if not n:
        return series.constant(np.linalg.matrix_power(series.value(a), 0))
    return reduce(np.matmul, [a] * n)


def relative_growth(series, order, a):
    """Coefficients of (log det a)' = tr(inv(a) a'), one fewer than those of `a`."""
    if not order:
        return []
    try:
        inverted = np.linalg.inv(a)
    except np.linalg.LinAlgError:
        raise np.linalg.LinAlgError(
            f"{series.name} has Taylor coefficients only where the matrix is invertible: use wengert.jacobian"
        ) from None
    rate = series(inverted.c[:order]) * np.swapaxes(series(derived(a.c)), -1, -2)
    return np.sum(rate, axis=(-2, -1)).c


def determinant(series, order, a):
    q = relative_growth(series, order, a)
    y = [np.linalg.det(a.c[0])]
    for k in range(1, order + 1):
        y.append(total_of((q[j], y[k - 1 - j]) for j in range(k)) / k)
    return series(y)


def log_determinant(series, order, a):
    """Taylor rule of ``slogdet``, whose sign is constant if the matrix is real."""
    if a.dtype.kind == "c":
        raise series.refused(" of complex values")
    found = np.linalg.slogdet(a.c[0])
    q = relative_growth(series, order, a)
    return type(found)(found.sign, series([found.logabsdet, *[x / (k + 1) for k, x in enumerate(q)]]))


def cholesky(series, order, a):
    if a.dtype.kind == "c":
        raise series.refused(" of complex values")
    first = np.linalg.cholesky(a.c[0])
    found = [first]
    half = np.tril(np.ones(a.shape[-2:])) - 0.5 * np.eye(a.shape[-1])
    for k in range(1, order + 1):
        rest = (a.c[k] + np.swapaxes(a.c[k], -1, -2)) / 2
        for j in range(1, k):
            rest = rest - found[j] @ np.swapaxes(found[k - j], -1, -2)
        inner = np.linalg.solve(first, np.swapaxes(np.linalg.solve(first, rest), -1, -2))
        found.append(first @ (inner * half))
    return series(found)
