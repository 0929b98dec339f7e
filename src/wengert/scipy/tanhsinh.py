"""`scipy.integrate.tanhsinh` with exact derivatives: many integrals at once, elementwise.

The elements of the limits and of ``args`` belong to one integral each; the partial with respect to one of them is an
elementwise integral again.  A traced value in the closure of the integrand belongs to all integrals, and each of its
elements has an elementwise integral of its own.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import scipy.integrate

from wengert.core.dispatch import dispatch
from wengert.core.levels import is_recording, outside, running
from wengert.core.operands import var
from wengert.core.rebind.rebind import rebound
from wengert.errors import UnsupportedFunctionError
from wengert.scipy.integral import Integrand
from wengert.scipy.mirror import check_plain
from wengert.scipy.own_rule import OwnRule
from wengert.scipy.quadrature import end_recording, mirrors
from wengert.transforms.dense import JVP
from wengert.transforms.products import frames_inside

#: level of the nodes that estimate the size of an integral
COARSE = 2


class _Function:
    """The user's integrand as a function of x, the elements of ``args``, and the values in its closure."""

    def __init__(self, integrand: Integrand):
        self.integrand = integrand

    def __call__(self, x, args, values):
        return rebound(self.integrand.parts(values)[0])(x, *args)


class _Partial:
    """The partial of a function with respect to ``args[position]``, elementwise, or to element k of the values."""

    def __init__(self, f: Any, position: int, k: int | None = None):
        self.f, self.position, self.k = f, position, k

    def __call__(self, x, args, values):
        if self.k is None:
            before, value, after = args[: self.position], args[self.position], args[self.position + 1 :]
            return JVP(lambda v: self.f(x, (*before, v, *after), values))(value, np.ones(np.shape(value)))[1]
        direction = np.zeros(np.shape(values[0]))
        direction[np.unravel_index(self.k, direction.shape)] = 1.0
        return JVP(lambda v: self.f(x, args, [v]))(values[0], direction)[1]


class _Integrals(OwnRule):
    """Elementwise integrals as a differentiable function of the limits, of ``args``, and of values in the closure.

    `count` is the number of elements of ``args``, and `active` says which operands have derivatives.
    """

    name = "scipy.integrate.tanhsinh"

    def __init__(self, f: Any, count: int, options: dict, active: list):
        self.f, self.count, self.options, self.active = f, count, options, active
        super().__init__(self.name)
        self.result: Any = None
        self.samples: Any = None

    def value(self, *operands):
        """Value at plain operands."""
        a, b, args, values = self._parted(operands)
        options = self.options
        with outside() if running.get() else contextlib.nullcontext():
            if isinstance(self.f, _Function):
                f, _, samples = self.f.integrand.first_parts(values)
                if samples:
                    f, self.samples = samples.of(f), samples
            else:

                def f(x, *args):
                    return self.f(x, args, values)

                options = self._tolerant(f, a, b, args)
            self.result = scipy.integrate.tanhsinh(f, a, b, args=args, **options)
        y = self.result.integral
        if np.iscomplexobj(y):
            raise UnsupportedFunctionError(
                f"{self.name} has no derivative of complex integrands: integrate numpy.real(f(x)) and numpy.imag(f(x))"
            )
        if not np.all(self.result.success):
            what = "the integral" if isinstance(self.f, _Function) else "the integral of a partial derivative"
            warnings.warn(
                f"{self.name}: {what} has not converged, its estimated error is {np.max(self.result.error):.2g}: the "
                "derivative may be wrong. Split the interval where the integrand is not smooth, or raise maxlevel",
                scipy.integrate.IntegrationWarning,
                stacklevel=frames_inside(),
            )
        return np.asarray(y)[()]

    def _tolerant(self, f, a, b, args):
        """Return the options for a partial: its accuracy is relative to the integral of abs(f)."""
        options = {**self.options, "callback": None}
        coarse = {**options, "minlevel": COARSE, "maxlevel": COARSE}
        size = scipy.integrate.tanhsinh(lambda x, *args: abs(f(x, *args)), a, b, args=args, **coarse).integral
        relative = options["rtol"] or np.finfo(float).eps ** 0.75  # SciPy's default
        least = relative * np.max(size, where=np.isfinite(size), initial=0.0)
        options["atol"] = max(options["atol"] or 0.0, least, np.finfo(float).tiny)
        return options

    def _parted(self, operands):
        return *operands[:2], operands[2 : 2 + self.count], list(operands[2 + self.count :])

    def _partials(self, operands):
        """Yield the position of each active operand, the index of its element or None, and the partial."""
        a, b, args, values = self._parted(operands)
        if self.samples and not var.holds_traced(operands):
            self.samples.check(self.name, lambda x, args: self.f(x, args, values), np.asarray)
        for i, (x, sign) in enumerate(((a, -1.0), (b, 1.0))):
            if self.active[i]:
                is_finite = np.isfinite(x)
                y = self.f(np.where(is_finite, x, 0.0), args, values)
                yield i, None, sign * np.where(is_finite, y, 0.0)
        for i in range(self.count):
            if self.active[2 + i]:
                yield 2 + i, None, self._of(_Partial(self.f, i))(*operands)
        for k in range(np.size(values[0]) if values else 0):
            yield 2 + self.count, k, self._of(_Partial(self.f, 0, k))(*operands)

    def _of(self, f):
        return _Integrals(f, self.count, self.options, self.active)

    def push(self, tangents, y, *operands):
        k, shape = len(tangents[0]), np.shape(y)
        found = np.zeros((k, *shape))
        for i, element, partial in self._partials(operands):
            t = tangents[i] if element is None else np.reshape(tangents[i], (k, -1))[:, element]
            own = np.shape(t)[1:]
            found = found + np.reshape(t, (k, *(1,) * (len(shape) - len(own)), *own)) * partial
        return found

    def pull(self, ybar, y, *operands):
        found: list = [None] * len(operands)
        elements = []
        for i, element, partial in self._partials(operands):
            g = ybar * partial
            if element is None:
                found[i] = _summed(g, np.shape(operands[i]))
            else:
                elements.append(np.sum(g))
        if elements:
            found[-1] = np.reshape(np.stack(elements), np.shape(operands[-1]))
        return found


def _summed(g, shape):
    """Sum a cotangent over the axes along which an operand of this shape was broadcast."""
    g = np.sum(g, axis=tuple(range(np.ndim(g) - len(shape)))) if np.ndim(g) > len(shape) else g
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and np.shape(g)[i] > 1)
    return np.sum(g, axis=axes, keepdims=True) if axes else g


@mirrors(scipy.integrate.tanhsinh)
def tanhsinh(name, given):
    """Partials with respect to elements of the limits and of args are integrated elementwise.

    Compiled functions that call it run eagerly.
    """
    check_plain(name, "integral", given, "f", "a", "b", "args")
    f, args, a, b = (given.pop(key) for key in ("f", "args", "a", "b"))
    args = args if isinstance(args, tuple) else (args,)
    refused = [key for key in ("log", "preserve_shape", "kwargs") if given.get(key)]
    operands = [dispatch.from_list(x) for x in (a, b, *args)]
    integrand = Integrand(f, ())
    if refused and (integrand.operands or var.holds_traced((operands, given.get("kwargs")))):
        raise UnsupportedFunctionError(
            f"{name} has no derivative with {refused[0]}=: use scipy.integrate.quad_vec, or log of the integral"
        )
    if is_recording():
        end_recording(f"{name} reports on a single run")
    if refused:
        return scipy.integrate.tanhsinh(f, a, b, args=args, **given)
    operands = [x if var.is_traced(x) else np.asarray(x, dtype=float)[()] for x in operands]
    active = [var.is_traced(x) for x in operands]
    integrals = _Integrals(_Function(integrand), len(args), given, active)
    y = integrals(*operands, *integrand.operands)
    return type(integrals.result)({**integrals.result, "integral": y})
