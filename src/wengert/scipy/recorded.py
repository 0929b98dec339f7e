"""SciPy's solvers in the form in which programs call them, see `wengert.implicit.recorded.Solved`.

Each is called as ``solve(value, slopes, *starts)``, with the equations and their Jacobian as functions of plain values.
It returns the solution and the outcome of the solver, whose first item says whether it converged.
The objects hold plain options and can be pickled.
"""

from __future__ import annotations

import numpy as np
import scipy.optimize

from wengert.deferred import deferred

solvers = deferred("wengert.implicit.recorded")


class _Hybrid:
    """MINPACK's hybrid method, which runs without Python, and on small systems side by side in a batch."""

    success: tuple = (True,)

    def __init__(self, options: dict, has_jacobian: bool):
        self.options, self.has_jacobian = options, has_jacobian
        self.known: dict = {}  # limits by the number of unknowns

    def limits_for(self, n: int) -> tuple | None:
        """Return the `limits`, which are computed once."""
        if n not in self.known:
            self.known[n] = self.limits(n)
        return self.known[n]

    def limits(self, n: int) -> tuple | None:
        """Return xtol, maxfev, factor, and the step of differences; None for options that only SciPy handles."""
        raise NotImplementedError

    @staticmethod
    def limits_of(given: dict, has_jacobian: bool, n: int) -> tuple | None:
        xtol, maxfev, factor = given.get("xtol", HYBRID_TOLERANCE), given.get("maxfev", 0), given.get("factor", 100)
        eps, others = given.get("eps"), given.keys() - {"xtol", "maxfev", "factor", "eps", "col_deriv"}
        numbers = (xtol, factor, 0.0 if eps is None else eps)
        is_plain = all(type(x) in (int, float, np.float64) for x in numbers) and type(maxfev) is int
        if not is_plain or any(given[key] is not None for key in others) or not (xtol > 0 and 0.1 <= factor <= 100):
            return None
        maxfev = maxfev or (100 if has_jacobian else 200) * (n + 1)
        return float(xtol), maxfev, float(factor), max(numbers[-1], np.finfo(float).eps) ** 0.5

    def native(self, equations, x0) -> tuple | None:
        """Return the root and the outcome, given equations that are programs; None if SciPy has to find it."""
        limits = self.limits_for(equations.n)
        if limits is None or equations.paths.programs[0]._exact:
            return None
        x = equations.hybrid_root(x0, *limits, self.has_jacobian)
        return None if x is None else (x, self.success)

    def native_many(self, paths, count: int, starts: tuple, leaves: tuple) -> tuple | None:
        """Return the roots of many systems, and the indices of those that SciPy's method has to solve, see `Newton`."""
        system = paths.systems()[0]
        limits = self.limits_for(system.linear.n)
        differs, rows, shared = system.arranged(count, np.broadcast_to(starts[0], (count, system.linear.n)), leaves)
        lanes = None if limits is None else system.lanes(differs, count, self.has_jacobian)
        if lanes is None:
            return None
        found, statuses = np.empty((count, system.linear.n)), np.empty(count, np.intc)
        if not lanes.solve_hybrid(rows, shared, *limits, found, statuses):
            return None
        system.give(lanes, differs, self.has_jacobian)
        return found, [], np.flatnonzero(statuses != 1).tolist()


#: SciPy's default of xtol
HYBRID_TOLERANCE = 1.49012e-08


class Root(_Hybrid):
    """`scipy.optimize.root` with MINPACK's methods.

    With `by_columns`, the solver takes the transposed Jacobian; without `has_jacobian`, it uses finite differences, as
    in the plain call.
    """

    def __init__(self, options: dict, by_columns: bool = False, has_jacobian: bool = True):
        super().__init__(options, has_jacobian)
        self.by_columns = by_columns

    success = True, 1, "The solution converged."

    def limits(self, n):
        if self.options["method"].lower() != "hybr":
            return None
        given = dict(self.options["options"] or {})
        if self.options["tol"] is not None:
            given.setdefault("xtol", self.options["tol"])
        return self.limits_of(given, self.has_jacobian, n)

    def __call__(self, value, slopes, x0):
        jac = (lambda x: slopes(x).T) if self.by_columns else slopes
        jac = jac if self.has_jacobian else None
        found = scipy.optimize.root(value, x0, jac=jac, **self.options)
        return found.x, (bool(found.success), int(found.status), found.message)


class Fsolve(_Hybrid):
    """`scipy.optimize.fsolve`, with the exact Jacobian or finite differences."""

    def __init__(self, options: dict, has_jacobian: bool = True):
        super().__init__(options, has_jacobian)

    def limits(self, n):
        given = {"eps" if key == "epsfcn" else key: value for key, value in self.options.items()}
        return self.limits_of(given, self.has_jacobian, n)

    def __call__(self, value, slopes, x0):
        fprime = (lambda x: slopes(x).T) if self.options["col_deriv"] else slopes
        fprime = fprime if self.has_jacobian else None
        x, _, status, message = scipy.optimize.fsolve(value, x0, fprime=fprime, full_output=True, **self.options)
        return _found(x, status == 1, message)


class _Scalar:
    """A solver of one equation, which runs without Python if its method and options allow that.

    `method` is its name, and `tolerances` are ``(xtol, rtol, maxiter)``, or None for SciPy to raise an error about one
    of them.
    """

    method = ""
    tolerances: tuple | None = None

    def set_tolerances(self, method: str, given: dict) -> None:
        """Set the method and its tolerances, with SciPy's defaults."""
        self.method = method
        is_open = method in ("newton", "secant")
        names = {"tol" if is_open else "xtol", "rtol", "maxiter"}
        xtol, rtol, maxiter = OPEN_DEFAULTS if is_open else BRACKETING_DEFAULTS
        xtol = given.get("tol" if is_open else "xtol", xtol)
        rtol, maxiter = given.get("rtol", rtol), given.get("maxiter", maxiter)
        is_plain = type(maxiter) is int and all(type(x) in (int, float, np.float64) for x in (xtol, rtol))
        if is_plain and given.keys() <= names and xtol > 0 and maxiter > 0:
            if is_open or rtol >= BRACKETING_DEFAULTS[1]:
                self.tolerances = float(xtol), float(rtol), maxiter

    @property
    def native(self):
        """The solver without Python, as `wengert.implicit.recorded.Solved` calls it, or None."""
        from wengert.program.roots.lanes import SCALAR_METHODS  # slow to import, like all of `wengert.program`

        return None if self.tolerances is None or self.method not in SCALAR_METHODS else self._native

    def starts_of(self, starts: tuple) -> tuple:
        return starts if len(starts) == 2 else (starts[0], _second_start(starts[0], self.method))

    def outcome(self):
        return (True,)

    def _native(self, equations, *starts):
        if self.method == "ridder" and equations.paths.programs[0]._exact:  # its last bits differ between releases
            return None
        x, status = equations.scalar_root(self.method, *self.starts_of(starts), *self.tolerances)
        if status == 1 and np.isfinite(x):
            return x, self.outcome()
        message = self.failure(status, x)
        if status == SAME_SIGNS:
            raise ValueError(message)
        raise solvers.NotConverged(f"the solver has not converged: {message}")

    def native_many(self, paths, count: int, starts: tuple, leaves: tuple) -> tuple | None:
        """Return the roots of many equations, and the outcomes where the solver does not converge, see `Newton`."""
        if self.native is None:
            return None
        has_slopes = self.method == "newton"
        a, b = self.starts_of(starts)
        system = paths.systems()[0]
        differs, rows, shared = system.arranged(count, np.broadcast_to(a, (count,)), leaves)
        lanes = system.lanes(differs, count, has_slopes)
        if lanes is None:
            return None
        found, statuses = np.empty(count), np.empty(count, np.intc)
        ends = np.array(np.broadcast_to(b, (count,)), float)
        if not lanes.solve_scalars(self.method, rows, shared, ends, *self.tolerances, found, statuses):
            return None
        system.give(lanes, differs, has_slopes)
        failed = np.flatnonzero((statuses != 1) | ~np.isfinite(found)).tolist()
        return found, [(k, self.failure(int(statuses[k]), found[k])) for k in failed]

    @staticmethod
    def failure(status: int, x: float) -> str:
        """Return the message of a solver that has not converged, for its status."""
        return FAILURES.get(status, "the root is not finite").format(x)


#: SciPy's defaults of xtol (tol), rtol and maxiter
BRACKETING_DEFAULTS = 2e-12, 4 * np.finfo(float).eps, 100
OPEN_DEFAULTS = 1.48e-8, 0.0, 50

#: statuses that ``roots/scalars.pxi`` returns, besides 1 for convergence
SAME_SIGNS = 2
FAILURES = {
    SAME_SIGNS: "f(a) and f(b) must have different signs",
    3: "the function value at x={} is NaN",
    4: "more than maxiter iterations, the last value is {}",
    5: "the derivative is zero at {}",
    6: "the secant method has found equal values at two points around {}",
    7: "the function value at x={} is not finite",
    8: "the ends of the bracket are not an interval, the lower one is {}",
}


def _second_start(x, method):
    """Return SciPy's second start of the secant method."""
    if method != "secant":
        return x
    x = np.asarray(x, dtype=float) * (1 + 1e-4)
    return (x + np.where(x >= 0, 1e-4, -1e-4))[()]


class Bracketing(_Scalar):
    """`scipy.optimize.brentq` and the other bracketing solvers."""

    def __init__(self, name: str, options: dict):
        self.name, self.options = name, options
        self.set_tolerances(name, options)

    def __call__(self, value, slopes, a, b):
        solver = getattr(scipy.optimize, self.name)
        x, found = solver(value, float(a), float(b), full_output=True, disp=False, **self.options)
        return _found(x, found.converged, found.flag)


class Newton(_Scalar):
    """`scipy.optimize.newton` for a scalar; with a second start, or without slopes, the secant method."""

    def __init__(self, options: dict, has_slopes: bool = True):
        self.options, self.has_slopes = options, has_slopes
        self.set_tolerances("newton" if has_slopes else "secant", options)

    def __call__(self, value, slopes, x0, x1=None):
        given = {"x1": x1 if x1 is None else float(x1)}
        if self.has_slopes:
            given = {"fprime": slopes}
        x, found = scipy.optimize.newton(value, float(x0), full_output=True, disp=False, **given, **self.options)
        return _found(x, found.converged, found.flag)


class RootScalar(_Scalar):
    """`scipy.optimize.root_scalar` with a method that takes at most first derivatives."""

    def __init__(self, options: dict, starts: tuple):
        self.options, self.starts = options, starts
        method = options["method"] or ("brentq" if "bracket" in starts else "secant" if "x1" in starts else "newton")
        given = {key: options[key] for key in ("xtol", "rtol", "maxiter") if options[key] is not None}
        given.update(options["options"] or {})
        if method in ("newton", "secant") and "xtol" in given:
            given["tol"] = given.pop("xtol")
        if ("bracket" in starts) == (method not in ("newton", "secant")):
            self.set_tolerances(method, given)

    def starts_of(self, starts):
        if self.method in ("newton", "secant"):
            given = dict(zip(self.starts, starts))
            return given["x0"], given.get("x1", _second_start(given["x0"], self.method))
        return starts[:2]

    def outcome(self):
        return (True, "converged", self.method)

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
        raise solvers.NotConverged(f"the solver has not converged: {message}")
    return x, (True,)
