"""Integrals as functions of their limits and of every traced value that the integrand reads, by Leibniz's rule.

With traced values p, found in the closure and the arguments of the integrand f, ::

    d/dp int_a^b f(x, p) w(x) dx = int_a^b f_p w dx + f(b) w(b) db/dp - f(a) w(a) da/dp

The traced values become arguments of the integrand (closure conversion, `wengert.implicit.stripped.Abstracted`), so
that an integral is one operation on limits and values.  Its value is computed by SciPy on plain numbers.  Its rule
contains the integral of the partials f_p, which is again such an operation: derivatives of any order and mode follow.
The quadrature of the partials has an error control of its own.

A reverse sweep evaluates the integrand again, when the user's function may have rebound its variables, so it stores
those that it reads.  If other state that it reads has changed, its values at two nodes differ, and an error is raised.

Invariants
- An integrand holds no traced value, so that tapes may refer to it.
- A term of a limit is absent if the limit is infinite.

The rule does not hold if the integrand, or one of the partials for the next order, jumps at a point that depends on p.

References
----------
Flanders (1973), Differentiation under the integral sign. doi:10.2307/2319163
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wengert.core.dispatch import dispatch
from wengert.core.levels import check_end, forget, is_recording, noted, outside, running, within
from wengert.core.operands import var
from wengert.core.rebind.rebind import rebound
from wengert.core.tape.memory import Level
from wengert.errors import LevelError, ReplayMismatchError, TracedValueError, UnsupportedFunctionError
from wengert.implicit.stripped import Abstracted
from wengert.scipy.jumps import jump_at
from wengert.scipy.namespace import computed
from wengert.scipy.native_integrand import Native, Nothing, native, native_alone
from wengert.scipy.own_rule import OwnRule
from wengert.transforms.dense import Jacobian, carried_identity
from wengert.transforms.second import Hessian

#: maximum number of elements of the traced values for which partials are computed by tangents
MAX_TANGENTS = 32


def has_value(f):
    """Return whether Python can call an integrand; one of `ctypes` may take the number of its arguments first."""
    types = getattr(f, "argtypes", None)
    return callable(f) and not (types and getattr(types[0], "_type_", "") == "i")


class Integrand:
    """A function of x, ``f(x, *args)``, whose traced values are arguments.

    With `is_batched`, f takes many points at once, along the first axis of x and of its result. `point` is a pair: the
    name of the integrating function, and a point at which f may be traced if it takes one number. With `is_nested`,
    f itself integrates, so its partials are faster in C even if f is traced for a single integral.
    """

    #: number of times that the integrand has been differentiated
    order = 0

    def __init__(
        self, f: Callable, args: tuple, is_batched: bool = False, point: tuple | None = None, is_nested: bool = False
    ):
        self.code, self.is_batched = Abstracted(f, args), is_batched
        if is_recording():  # a program runs it when the variables of f have their final values
            self.code.live = None
        found = self.code.take()
        self.native: Native | Nothing = Nothing()
        self.is_complex = [np.iscomplexobj(var.plain(x)) for x in found]
        if point is not None and is_recording() and not any(self.is_complex):
            self.native = native(lambda x: flat(rebound(f)(x, *args)), found, point[1], point[0]) or self.native
        self.later = point if is_nested and not is_recording() and not any(self.is_complex) else None
        for k in reversed(np.flatnonzero(self.is_complex)):
            found[k : k + 1] = np.real(found[k]), np.imag(found[k])
        self.shapes = [np.shape(x) for x in found]
        #: the traced values as at most one operand: a single value, or else the elements of all values
        self.operands = found if len(found) < 2 else [joined(found)]

    def prepare_partials(self, values: list) -> None:
        """Trace a nested integrand at plain values, the first time that its partials are integrated."""
        later, self.later = self.later, None
        if later is not None:
            self.native = native_alone(self.prepared(), values, later[1]) or self.native

    def first_parts(self, values: list) -> tuple[Callable, tuple, Samples | None]:
        """Return the function, its arguments, and a `Samples` object or None, to compute the value of the integral.

        The first time, the function shares its variables with the user's function, which may assign them.  They may
        later hold traced values, so they are not kept: later calls use copies, and take no samples.
        """
        live, self.code.live = self.code.live, None
        return *self.parts(values, live), None if live is None else Samples()

    def parts(self, values: list, template: Any = None) -> tuple[Callable, tuple]:
        """Return the function and its arguments, with these operands in place of the traced values."""
        if len(self.shapes) > 1:
            values = parted(*values, self.shapes)
        if any(self.is_complex):
            rest = iter(values)
            values = [next(rest) + 1j * next(rest) if is_complex else next(rest) for is_complex in self.is_complex]
        return (template or self.code.frozen).filled(values)

    def prepared(self) -> Callable:
        """Return a function that maps values to the function of x alone."""
        code = self.code.frozen
        is_bound = code.is_direct and rebound(code.f) is code.f
        flatten = rows if self.is_batched else flat

        def with_values(values):
            f, args = self.parts(values)
            if not has_value(f):
                raise UnsupportedFunctionError(
                    f"a {type(f).__name__} has no value at a traced limit or argument of an integral: pass a Python "
                    "function"
                )
            f = f if is_bound else rebound(f)
            return (lambda x: flatten(f(x, *args))) if args else lambda x: flatten(f(x))

        return with_values

    @contextlib.contextmanager
    def at(self, values: list) -> Iterator[Callable]:
        """Yield the function of x alone, which returns a real scalar, a 1-D real array or a matrix of such rows."""
        with in_c(self, values) as found:
            yield self.prepared()(values) if found is None else found

    def count(self, values: list) -> int:
        """Number of elements of the function."""
        return 1


class Samples:
    """Values of the user's integrand at the first and the last point of an integral."""

    def __init__(self):
        self.first: Any = None
        self.last: Any = None

    def of(self, f: Callable) -> Callable:
        """Wrap `f` to note its first and last value."""

        def noted(x, *args):
            y = f(x, *args)
            self.last = x if type(x) is float else np.array(x), args, y if type(y) is float else np.array(y)
            if self.first is None:
                self.first = self.last
            return y

        return noted

    def check(self, name: str, f: Callable, flatten: Callable) -> None:
        """Raise if ``f(x, args)``, which returns flattened values, differs from what the user's integrand returned."""
        for x, args, y in filter(None, (self.first, self.last)):
            y, again = flatten(y), f(x, args)
            if not np.all((abs(again - y) <= 1e-9 * abs(y)) | (np.isnan(y) & np.isnan(again))):
                raise ReplayMismatchError(
                    f"{name}: the integrand has changed since the integral was computed: it reads state that was "
                    "modified, or random numbers, and a reverse sweep evaluates it again. Pass what it reads in args=, "
                    "or use forward mode"
                )


def flat(y: Any) -> Any:
    """Return a value of an integrand as a scalar or a 1-D array of real numbers."""
    if type(y) is float or var.is_scalar(y):
        return y
    y = dispatch.from_list(y)
    if np.ndim(y):
        y = np.reshape(y, (-1,)) if np.ndim(y) > 1 else y
        return np.concatenate([np.real(y), np.imag(y)]) if np.iscomplexobj(var.plain(y)) else y
    return np.stack([np.real(y), np.imag(y)]) if np.iscomplexobj(var.plain(y)) else y


def rows(y: Any) -> Any:
    """Return values at many points as a matrix of real numbers with a row for each point."""
    if np.iscomplexobj(var.plain(y)):
        raise UnsupportedFunctionError(
            "scipy.integrate.cubature has no derivative of complex integrands: integrate numpy.real(f(x)) and "
            "numpy.imag(f(x))"
        )
    return np.reshape(y, (np.shape(y)[0], -1))


class Partials:
    """The partial derivatives of an integrand with respect to all its values, element by element of the integrand."""

    def __init__(self, integrand: Any, name: str, of_scalar: bool = False):
        self.integrand, self.name, self.of_scalar = integrand, name, of_scalar
        self.is_batched, self.order = integrand.is_batched, 1 + integrand.order

    @property
    def native(self) -> Native | Nothing:
        """The programs of the integrand and its partials."""
        return self.integrand.native

    def count(self, values):
        return self.integrand.count(values) * sum(map(np.size, values))

    @contextlib.contextmanager
    def at(self, values):
        """Yield a function of x that returns the matrix of partials, or many of them, by rows in a 1-D array."""
        with in_c(self, values) as found:
            if found is not None:
                yield found
                return
        n = sum(map(np.size, values))
        inner = self.integrand
        if isinstance(inner, Partials) and inner.of_scalar and not (running.get() or var.holds_traced(values)):
            yield _by_sweeps(Hessian, inner.integrand, values)
            return
        if n > MAX_TANGENTS:
            yield _by_sweeps(Jacobian, inner, values)
            return
        level = Level(self.name, len(running.get()), n)
        around = (*running.get(), level)
        traced, first = [], 0
        for value in values:
            traced.append(carried_identity(level, value, first))
            first -= np.size(value)

        def slopes(x):
            token = running.set(around)
            try:
                y = f(x)
            finally:
                running.reset(token)
            if var.level_of(y) is not level:
                t = np.zeros((n, *np.shape(y)))
            elif var.is_scalar(y):
                return var.tangents_of(y)
            else:
                t = var.tangents_of(y)
            t = np.moveaxis(t, 0, -1)
            return np.reshape(t, (t.shape[0], -1) if self.is_batched else (-1,))

        with contextlib.ExitStack() as stack:
            stack.callback(level.close)
            with within(around):
                f = stack.enter_context(self.integrand.at(traced))
            yield slopes
            check_end(level)


def in_c(integrand: Integrand | Partials, values: list) -> Any:
    """Return a context that yields the integrand at plain values as a C function, or None; see `Native.at`."""
    if running.get() or var.holds_traced(values):
        return contextlib.nullcontext()
    return integrand.native.at(integrand.order, values)


def _by_sweeps(operator, integrand, values):
    """Return the derivative in the values as a function of x, computed by sweeps at each x."""
    if isinstance(integrand, Integrand):
        prepared = integrand.prepared()

        def at_x(p, x):
            return prepared([p])(x)
    else:

        def at_x(p, x):
            with integrand.at([p]) as f:
                return f(x)

    derivative = operator(at_x)
    if integrand.is_batched:
        return lambda x: np.reshape(derivative(*values, x), (len(x), -1))
    return lambda x: np.reshape(derivative(*values, x), (-1,))


def joined(values: list) -> Any:
    """Concatenate scalars and arrays into a 1-D array."""
    if all(map(var.is_scalar, values)):
        return dispatch.stacked(values)
    return np.concatenate([np.reshape(value, (-1,)) for value in values])


def parted(p: Any, shapes: list) -> list:
    """Split a 1-D array into scalars and arrays."""
    if not any(shapes):
        return list(p)
    found, first = [], 0
    for shape in shapes:
        size = int(np.prod(shape, dtype=int))
        found.append(np.reshape(p[first : first + size], shape) if shape else p[first])
        first += size
    return found


class Integral(OwnRule):
    """An integral as a differentiable function of its operands: the traced limits, then the values of the integrand.

    Each of the two `limits` is None if it is an operand. With `has_error`, the last element of the result is the error
    estimate, which differs in each replay of a program.

    ``method.value(integrand, values, a, b)`` integrates the user's function and returns the result, a scalar or a 1-D
    array, and the rest of SciPy's result, which is kept as ``method.rest``. ``method.examined(integrand, values, a,
    b)`` raises if Leibniz's rule does not hold, and returns the breakpoints `points` for ``method.partials(f, a, b,
    count, points)``, which integrates a function with a 1-D array of `count` elements. ``method.weight(x)`` returns the
    weight at a limit.
    """

    def __init__(self, integrand: Any, limits: tuple, method: Any, has_error: bool = False):
        self.integrand, self.limits, self.method, self.has_error = integrand, limits, method, has_error
        super().__init__(method.name)
        self.row.continuous = integrand.native.is_continuous(integrand.order)

    def value(self, *operands: Any) -> Any:
        """Value at plain operands."""
        a, b, values = self._parted(operands)
        with outside() if running.get() else contextlib.nullcontext():
            if isinstance(self.integrand, Integrand):
                y, *rest = self._value(values, float(a), float(b))
                if self.has_error:
                    return np.append(y, rest[0])
                self.method.rest = rest
                return y
            if isinstance(self.integrand.integrand, Integrand):
                self.integrand.integrand.prepare_partials(values)
            points = self.method.examined(self.integrand.integrand, values, float(a), float(b))
            with self.integrand.at(values) as f:
                return self.method.partials(f, float(a), float(b), self.integrand.count(values), points)

    def _value(self, values, a, b):
        before = noted()
        try:
            return self.method.value(self.integrand, values, a, b)
        except (LevelError, TracedValueError) as error:
            forget(before)
            raise TracedValueError(
                f"{self.method.name}: the integrand reads a traced value that is neither in its closure nor in args: "
                "pass the value in args="
            ) from error

    def _parted(self, operands):
        """Return the limits and the values of the integrand."""
        rest = iter(operands)
        a, b = (next(rest) if limit is None else limit for limit in self.limits)
        return a, b, list(rest)

    def _of_partials(self, operands, shape):
        of_scalar = not (shape or self.integrand.is_batched) and isinstance(self.integrand, Integrand)
        return Integral(Partials(self.integrand, self.method.name, of_scalar), self.limits, self.method)(*operands)

    def _at_limits(self, operands):
        """Yield the position of each traced limit, and the partial derivative in it; None if the limit is infinite."""
        a, b, values = self._parted(operands)
        position = 0
        for x, other, limit, sign in ((a, b, self.limits[0], -1), (b, a, self.limits[1], 1)):
            if limit is None:
                yield position, self._at_limit(x, other, values, sign) if np.isfinite(x) else None
                position += 1

    def _at_limit(self, x, other, values, sign):
        """Return the integrand at a limit, or just beside it if it jumps there, times the weight and the sign."""
        x = x - computed(self._jump_at, x, other, *values)
        with self.integrand.at(values) as f:
            weight = self.method.weight(x)
            return sign * f(x) if weight is None else sign * f(x) * weight

    def _jump_at(self, x, other, *values):
        with outside() if running.get() else contextlib.nullcontext(), self.integrand.at(list(values)) as f:
            if isinstance(self.integrand, Integrand):
                self.method.known.check(self.method.name, self.integrand, values)
            if self.integrand.native.is_continuous(self.integrand.order):
                return np.float64(0.0)
            return np.float64(jump_at(f, float(x), float(other)))

    def push(self, tangents, y, *operands):
        k, shape = len(tangents[0]), self._shape(y)
        found = np.zeros((k, *shape))
        first = self.limits.count(None)
        if not all(map(_is_zero, tangents[:first])):
            for position, partial in self._at_limits(operands):
                t = tangents[position]
                if partial is not None and not _is_zero(t):
                    found = found + np.reshape(t, (k,) + (1,) * len(shape)) * partial
        if not all(map(_is_zero, tangents[first:])):
            t = np.concatenate([np.reshape(t, (k, -1)) for t in tangents[first:]], axis=1)
            partials = self._of_partials(operands, shape)
            if shape:
                partials = np.transpose(np.reshape(partials, (shape[0], -1)))
            found = found + np.matmul(t, partials)
        if self.has_error:
            return np.concatenate([np.reshape(found, (k, -1)), np.zeros((k, 1))], axis=1)
        return found

    def pull(self, ybar, y, *operands):
        shape = self._shape(y)
        if self.has_error:
            ybar = np.reshape(ybar[:-1], shape) if shape else ybar[0]
        if _is_zero(ybar):
            return [np.zeros(np.shape(x)) for x in operands]
        found = []
        for _, partial in self._at_limits(operands):
            found.append(0.0 * np.sum(ybar) if partial is None else np.sum(ybar * partial))
        values = operands[self.limits.count(None) :]
        if values:
            partials = self._of_partials(operands, shape)
            products = np.matmul(ybar, np.reshape(partials, (shape[0], -1))) if shape else ybar * partials
            found += parted(products, [np.shape(x) for x in values])
        return found

    def _shape(self, y):
        """Return the shape of the integral in the result."""
        if self.has_error:
            return () if self.method.is_scalar else (np.size(y) - 1,)
        return np.shape(y)


def _is_zero(t):
    """Return whether a tangent or cotangent is a plain zero, so that its term can be left out."""
    return not var.holds_traced(t) and not np.any(t)
