"""`scipy.integrate.cubature` with exact derivatives: integrands that take many points of several variables at once.

Traced limits become parameters of the integrand, by a map of the box to the unit cube.
Jumps are searched for along lines parallel to the axes, through the smallest regions of the subdivision.
"""

import contextlib
import dataclasses
import functools
import itertools

import numpy as np
import scipy.integrate

from wengert.core.dispatch.dispatch import from_list
from wengert.core.levels import is_recording
from wengert.core.operands import var
from wengert.core.rebind.rebind import rebound
from wengert.program.integration.jumps import change
from wengert.scipy.integral import Integral, Integrand, rows
from wengert.scipy.jumps import MAX_INTERVALS, moving_jump
from wengert.scipy.mirror import check_plain
from wengert.scipy.quadrature import QuadVec, end_recording, jump_error, mirrors, warn

_OPTIONS = ("rule", "rtol", "atol", "max_subdivisions", "points")


class _Box:
    """An integrand with the limits of a box; with traced limits, it is mapped to the unit cube."""

    def __init__(self, f, a, b):
        self.f, self.a, self.b = f, a, b
        self.is_mapped = var.holds_traced((a, b))

    def __call__(self, x, *args):
        if not self.is_mapped:
            return rebound(self.f)(x, *args)
        length = self.b - self.a
        y = rebound(self.f)(self.a + length * x, *args)
        return y * np.prod(length)

    def limits(self):
        return (np.zeros(len(self.a)), np.ones(len(self.a))) if self.is_mapped else (self.a, self.b)


class _Cubature(QuadVec):
    """The integral of a `_Box`; the limits of its `Integral` are not used."""

    def value(self, integrand, values, a, b):
        box, args, self.samples = integrand.first_parts(values)
        f = self.samples.of(box.f) if self.samples and self.options["workers"] == 1 else box.f
        self.result = scipy.integrate.cubature(f, box.a, box.b, args=args, **self.options)
        y = self.result.estimate
        self.shape = np.shape(y)
        return (rows(np.reshape(y, (1, -1)))[0] if self.shape else np.float64(y),)

    def examined(self, integrand, values, a, b):
        """Return the limits and breakpoints for the partials; raise if a jump moves with the parameters."""
        box = _innermost(integrand).parts(values)[0]
        low, high = box.limits()
        points = self.options["points"] or []
        if box.is_mapped:
            points = [(np.asarray(x) - box.a) / (box.b - box.a) for x in points]
        with contextlib.ExitStack() as stack:

            def entered(values):
                f = stack.enter_context(integrand.at(values))
                return lambda x: np.array(f(x[None]), dtype=float)[0]

            if isinstance(integrand, Integrand) and self.samples:
                self.samples.check(self.name, lambda x, args: rows(rebound(box.f)(x, *args)), rows)
            f = entered(values)
            if np.isfinite([low, high]).all():
                self._check_jumps(integrand, values, (low, high), points, entered, f)
        return low, high, points

    def _check_jumps(self, integrand, values, limits, points, entered, f):
        with integrand.at(values) as g:
            regions = self._integrated(g, *limits, points).regions
        regions = sorted(regions, key=lambda region: np.prod(region.b - region.a))[:MAX_INTERVALS]
        changed = functools.cache(lambda: entered([change(*values)]))
        low, high = np.sort(limits, axis=0)
        for region, axis in itertools.product(regions, range(len(low))):
            along = functools.partial(_Line, region, axis)
            margin = (region.b - region.a)[axis] / 3  # a jump may be at the border of the region
            interval = np.array([[region.a[axis] - margin, region.b[axis] + margin]])
            interval = np.clip(interval, low[axis], high[axis])
            if (t := moving_jump(along(f), lambda along=along: along(changed()), interval)) is not None:
                raise jump_error(self.name, f"x[{axis}] = {t:.6g}")

    def partials(self, f, a, b, count, points):
        result = self._integrated(f, *points)
        if result.status != "converged":
            reason = f"{result.subdivisions} subdivisions were made"
            warn(self.name, np.max(result.error), reason, "max_subdivisions")
        return result.estimate

    def _integrated(self, f, low, high, points):
        """Integrate partials; the accuracy is relative to the integral of abs(f), since the integral may vanish."""
        options = {name: self.options[name] for name in _OPTIONS} | {"points": points}
        size = scipy.integrate.cubature(lambda x: abs(f(x)), low, high, **options | {"max_subdivisions": 1}).estimate
        options["atol"] = np.maximum(options["atol"], options["rtol"] * size)
        return scipy.integrate.cubature(f, low, high, **options)


class _Line:
    """A function along the line through the middle of a region, parallel to an axis."""

    def __init__(self, region, axis, f):
        self.middle, self.axis, self.f = 0.5 * (region.a + region.b), axis, f

    def __call__(self, t):
        x = self.middle.copy()
        x[self.axis] = t
        return self.f(x)


def _innermost(integrand):
    while not isinstance(integrand, Integrand):
        integrand = integrand.integrand
    return integrand


@mirrors(scipy.integrate.cubature)
def cubature(name, given):
    """All partials are integrated together. Compiled functions that call it run eagerly."""
    check_plain(name, "integral", given, "f", "a", "b", "args")
    f, args = given.pop("f"), given.pop("args")
    args = args if isinstance(args, tuple) else (args,)
    a, b = (_limits(given.pop(key)) for key in "ab")
    integrand = Integrand(_Box(f, a, b), args, is_batched=True)
    if is_recording():
        end_recording(f"{name} reports on a single run")
    method = _Cubature(name, given)
    y = Integral(integrand, (0.0, 1.0), method)(*integrand.operands)
    return dataclasses.replace(method.result, estimate=method.restored(y))


def _limits(x):
    x = from_list(x)
    return x if var.is_traced(x) else np.asarray(x, dtype=float)
