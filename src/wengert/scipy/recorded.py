"""SciPy's solvers as programs call them, see `wengert.implicit.recorded.Solved`.

Each is called as ``solve(value, slopes, *starts)``; both functions, equations and Jacobian, take plain values.
It returns the solution and the outcome of the solver, whose first item says whether it converged.
The objects hold plain options and can be pickled.
"""

from __future__ import annotations

import numpy as np
import scipy.optimize


class Root:
    """`scipy.optimize.root` with MINPACK's methods.

    Parameters
    ----------
    options : dict
    by_columns : bool
        Whether the solver takes the transposed Jacobian.
    has_jacobian : bool
        Whether it is given the exact Jacobian, or takes finite differences as in the plain call.
    """

    def __init__(self, options: dict, by_columns: bool = False, has_jacobian: bool = True):
        self.options, self.by_columns, self.has_jacobian = options, by_columns, has_jacobian

    def __call__(self, value, slopes, x0):
        jac = (lambda x: slopes(x).T) if self.by_columns else slopes
        jac = jac if self.has_jacobian else None
        found = scipy.optimize.root(value, x0, jac=jac, **self.options)
        return found.x, (bool(found.success), int(found.status), found.message)


class Fsolve:
    """`scipy.optimize.fsolve`, with the exact Jacobian or finite differences."""

    def __init__(self, options: dict, has_jacobian: bool = True):
        self.options, self.has_jacobian = options, has_jacobian

    def __call__(self, value, slopes, x0):
        fprime = (lambda x: slopes(x).T) if self.options["col_deriv"] else slopes
        fprime = fprime if self.has_jacobian else None
        x, _, status, message = scipy.optimize.fsolve(value, x0, fprime=fprime, full_output=True, **self.options)
        return _found(x, status == 1, message)


class Bracketing:
    """`scipy.optimize.brentq` and the like."""

    def __init__(self, name: str, options: dict):
        self.name, self.options = name, options

    def __call__(self, value, slopes, a, b):
        solver = getattr(scipy.optimize, self.name)
        x, found = solver(value, float(a), float(b), full_output=True, disp=False, **self.options)
        return _found(x, found.converged, found.flag)


class Newton:
    """`scipy.optimize.newton` for a scalar; with a second start, the secant method."""

    def __init__(self, options: dict):
        self.options = options

    def __call__(self, value, slopes, x0, x1=None):
        given = {"fprime": slopes} if x1 is None else {"x1": float(x1)}
        x, found = scipy.optimize.newton(value, float(x0), full_output=True, disp=False, **given, **self.options)
        return _found(x, found.converged, found.flag)


class RootScalar:
    """`scipy.optimize.root_scalar` with a method that takes at most first derivatives."""

    def __init__(self, options: dict, starts: tuple):
        self.options, self.starts = options, starts

    def __call__(self, value, slopes, *starts):
        values = [*map(float, starts)]
        given: dict = {"bracket": (values.pop(0), values.pop(0))} if "bracket" in self.starts else {}
        given.update(zip((name for name in self.starts if name != "bracket"), values))
        if self.options["method"] == "newton":
            given["fprime"] = slopes
        found = scipy.optimize.root_scalar(value, **given, **self.options)
        x, _ = _found(found.root, found.converged, found.flag)
        return x, (True, found.flag, found.method)


def _found(x, has_converged, message):
    """Return a converged solution; otherwise raise, since programs contain no failures."""
    if not has_converged or not np.isfinite(x).all():
        from wengert.implicit.recorded import NotConverged  # slow to import

        raise NotConverged(f"the solver has not converged: {message}")
    return x, (True,)
