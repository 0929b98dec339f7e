"""Solvers of `scipy.optimize` with exact derivatives, both inside the solver and of its solution.

Every function has the signature and the results of SciPy's, followed by four keywords:

``on_failure`` : {'raise', 'warn', 'nan'}
    What to do within a derivative if the solver does not converge; elsewhere SciPy's own rules apply.
``on_singular`` : {'raise', 'lstsq', 'nan'}
    What to do within a derivative if the Jacobian at the solution is singular. ``'lstsq'`` returns the derivative of
    minimum norm, as needed if solutions form a line.
``polish`` : {'auto', True, False}
    Whether to take the derivative at the solution improved by Newton steps; ``'auto'`` if its error exceeds rounding.
``derivs`` : {'auto', 'scipy'}
    Source of derivatives for the iterations. ``'auto'`` passes the exact ``jac``, ``hess`` or ``fprime`` that the
    method takes, unless the call has one; ``'scipy'`` leaves them to SciPy.

The returned values are, to the last bit, those of SciPy when called with the same ``jac`` and ``hess``.
Within a derivative they are functions of all traced values that the user's function reads, by arguments or closures.
The start, the ends of a bracket, tolerances and options have no derivative, since the solution does not depend on them.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
import scipy.optimize
from scipy.sparse import csr_array

from wengert import api
from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import stacked
from wengert.core.levels import running
from wengert.core.operands.var import holds_traced
from wengert.core.rebind.rebind import rebound
from wengert.errors import NonSmoothError, UnsupportedFunctionError
from wengert.implicit.stripped import stripped
from wengert.implicit.theorem import plain_function
from wengert.scipy import recorded
from wengert.scipy.mirror import mirrors
from wengert.scipy.results import recorded_result, traced_result, with_bits
from wengert.transforms.second import Products

__all__ = [
    "bisect",
    "brenth",
    "brentq",
    "fixed_point",
    "fsolve",
    "least_squares",
    "minimize",
    "newton",
    "ridder",
    "root",
    "root_scalar",
    "toms748",
]


def _share(arguments, function, slot, derivative):
    """Add a derivative to SciPy's arguments, and replace the function by one that shares its evaluations."""
    arguments[function] = derivative.fun
    arguments[slot] = derivative


# ---- systems of equations


@mirrors(scipy.optimize.root)
def root(call):
    """Methods ``'hybr'`` and ``'lm'`` use the exact Jacobian."""
    takes_jacobian = call["method"].lower() in ("hybr", "lm")
    x, outcome = _recorded_root(call, takes_jacobian)
    if x is not None:
        success, status, message = outcome
        return recorded_result(x=x, success=success, status=status, message=message)

    def supply(arguments):
        if takes_jacobian and arguments.get("jac") is None:
            _share_matrix(arguments, "fun", "jac", (arguments.get("options") or {}).get("col_deriv"))

    found = call.run(supply)
    if not call.traced:
        return found
    x = call.solution(call.residual, found.x, found.success, found.message)
    return traced_result(found, ("fun",), x=x, info=call.info) if holds_traced(x) else found


def _recorded_root(call, takes_jacobian):
    """Append the root to the recording; return it with the outcome of SciPy's solver."""
    options = {name: call[name] for name in ("method", "tol", "options")}
    if not (takes_jacobian and call["jac"] is None and call["callback"] is None):
        return None, None
    x0 = _flat_start(call["x0"])
    by_columns = (options["options"] or {}).get("col_deriv")
    return call.recorded(recorded.Root(options, by_columns), (x0,), (np.size(x0),), options)


def _flat_start(x0):
    """Return the start as a 1-D array."""
    x0 = stacked(x0) if isinstance(x0, (list, tuple)) and holds_traced(x0) else x0
    x0 = x0 if holds_traced(x0) else np.asarray(x0)
    return np.reshape(x0, (-1,))


@mirrors(scipy.optimize.fsolve)
def fsolve(call):
    """Uses the exact Jacobian."""

    def supply(arguments):
        if arguments.get("fprime") is None:
            _share_matrix(arguments, "func", "fprime", arguments.get("col_deriv"))

    if call["fprime"] is None and not call["full_output"]:
        names = ("col_deriv", "xtol", "maxfev", "band", "epsfcn", "factor", "diag")
        options, x0 = {name: call[name] for name in names}, _flat_start(call["x0"])
        x, _ = call.recorded(recorded.Fsolve(options), (x0,), (np.size(x0),), options)
        if x is not None:
            return x
    if not call.traced:
        return call.run(supply)
    found, infodict, status, message = call.run(supply, full_output=True)
    x = call.solution(call.residual, found, status == 1, message)
    if not holds_traced(x):
        return call.run(supply)
    return (x, traced_result(infodict, ("fvec",), info=call.info), status, message) if call["full_output"] else x


def _share_matrix(arguments, function, slot, by_columns):
    """Like `_share`, for a Jacobian in MINPACK's form: a matrix even if the function returns a scalar."""
    f = arguments[function]
    J = api.jacobian(f)
    value, derivative = J.fun, J
    if not (running.get() or hasattr(type(f), "__wengert__")):
        both = _Both(f)
        value, derivative = both.value, both.derivative

    def jacobian(x, *args):
        matrix = np.reshape(derivative(x, *args), (-1, np.size(x)))
        return matrix.T if by_columns else matrix

    arguments[function] = value
    arguments[slot] = jacobian


class _Both:
    """A function and its Jacobian for MINPACK, which needs both at the start and few Jacobians later.

    The function is recorded at the start and whenever a Jacobian is requested; elsewhere it is called directly.
    """

    def __init__(self, f):
        self.f = f
        self.run = api.jacobian(f, value=True)
        self.point = self.found = None

    def value(self, x, *args):
        if self.point is not None and self.point != x.tobytes():
            return self.f(x, *args)
        return plain_copy(self._at(x, args)[0])

    def derivative(self, x, *args):
        return self._at(x, args)[1]

    def _at(self, x, args):
        if self.point != x.tobytes():
            self.found = self.run(x, *args)
            self.point = x.tobytes()
        return self.found


@mirrors(scipy.optimize.fixed_point)
def fixed_point(call):
    """The derivative is that of the solution of x = f(x), however the iteration converges."""
    if not call.traced:
        return call.run()
    try:
        x = call.run()
    except RuntimeError as error:
        if not holds_traced(call.value(np.asarray(stripped(call["x0"]), dtype=float))):
            raise
        call.fail(str(error), error)
    image = call.residual
    return call.solution(lambda x: x - image(x), x, True, "")


# ---- roots of scalar functions


#: numeric parameters of these solvers
_TOLERANCES = ("xtol", "rtol", "k", "maxiter", "tol")


def _bracketing(name):
    @mirrors(getattr(scipy.optimize, name))
    def solver(call):
        """The ends of the bracket have zero derivative."""
        if not (call["full_output"] or not call["disp"]):
            options = {key: value for key, value in call.arguments.items() if key in _TOLERANCES}
            x, _ = call.recorded(recorded.Bracketing(name, options), (call["a"], call["b"]), (), options)
            if x is not None:
                return x
        if not call.traced:
            return call.run()
        _, found = call.run(full_output=True, disp=False)
        x = call.solution(call.residual, found.root, found.converged, found.flag)
        if not holds_traced(x):
            return call.run()
        found.root, found.info = x, call.info
        return (x, found) if call["full_output"] else x

    return solver


bisect, brenth, brentq, ridder, toms748 = map(_bracketing, ("bisect", "brenth", "brentq", "ridder", "toms748"))


def _share_slopes(arguments, function, takes_second=False):
    """Add exact first, and optionally second, derivatives of a scalar or elementwise function."""
    f = arguments[function]
    is_complex = np.iscomplexobj(arguments["x0"])
    if arguments.get("fprime") is None:
        _share(arguments, function, "fprime", api.derivative(f, holomorphic=is_complex))
    if takes_second and arguments.get("fprime2") is None:
        arguments["fprime2"] = api.derivative(f, order=2)


@mirrors(scipy.optimize.newton)
def newton(call):
    """Uses the exact ``fprime``, which makes it Newton's method, or Halley's if ``fprime2`` is given.

    With ``x1`` it is the secant method, as in SciPy.
    For an array of starts the function and its derivative are elementwise.
    """

    def supply(arguments):
        if arguments.get("x1") is None and arguments.get("fprime") is None:
            _share_slopes(arguments, "func")

    if np.ndim(call["x0"]) == 0 and call["fprime"] is call["fprime2"] is None and call["disp"]:
        if not call["full_output"]:
            options = {key: value for key, value in call.arguments.items() if key in _TOLERANCES}
            starts = (call["x0"],) if call["x1"] is None else (call["x0"], call["x1"])
            x, _ = call.recorded(recorded.Newton(options), starts, (), options)
            if x is not None:
                return x
    if not call.traced:
        return call.run(supply)
    is_array = np.size(call["x0"]) > 1
    try:
        with warnings.catch_warnings():
            if call["disp"]:  # SciPy then raises and does not warn
                warnings.filterwarnings("ignore", "Derivative was zero|Tolerance of", RuntimeWarning)
            found = call.run(supply, full_output=True, disp=False)
    except RuntimeError as error:  # no element of the array has converged
        if not is_array or not holds_traced(call.value(np.asarray(stripped(call["x0"]), dtype=float))):
            raise
        call.fail(str(error), error)
    converged = found.converged & ~found.zero_der if is_array else found[1].converged
    message = f"{np.sum(~converged)} of {converged.size} elements have not converged" if is_array else found[1].flag
    x = call.solution(call.residual, found[0], converged, message, elementwise=True)
    if not holds_traced(x):
        return call.run(supply)
    if is_array:
        return found._replace(root=x) if call["full_output"] else x
    found[1].root, found[1].info = x, call.info
    return (x, found[1]) if call["full_output"] else x


@mirrors(scipy.optimize.root_scalar)
def root_scalar(call):
    """Methods ``'newton'`` and ``'halley'`` use the exact derivatives.

    Without ``method``, ``bracket`` and ``x1`` the method is Newton's.
    """
    method = (call["method"] or "").lower()
    if not method and call["bracket"] is None and call["x1"] is None:
        method = "newton"

    def supply(arguments):
        if method in ("newton", "halley") and arguments.get("x0") is not None and not call.returns_derivatives:
            _share_slopes(arguments, "f", method == "halley")

    x, outcome = _recorded_scalar(call, method)
    if x is not None:
        return recorded_result(root=x, converged=outcome[0], flag=outcome[1], method=outcome[2])
    found = call.run(supply)
    if call.traced:
        found.root = call.solution(call.residual, found.root, found.converged, found.flag)
        if holds_traced(found.root):
            found.info = call.info
    return found


def _recorded_scalar(call, method):
    """Append the root to the recording; return it with the outcome of SciPy's solver. Excludes Halley's method."""
    if any(call[name] is not None for name in ("fprime", "fprime2")) or method == "halley":
        return None, None
    names = ("x0", "x1") if call["bracket"] is None else ("bracket", "x0", "x1")
    given = {name: call[name] for name in names if call[name] is not None}
    starts = [x for name, x in given.items() for x in (x if name == "bracket" else (x,))]
    options = {key: call[key] for key in ("xtol", "rtol", "maxiter", "options")}
    solve = recorded.RootScalar({**options, "method": method or None}, tuple(given))
    return call.recorded(solve, tuple(starts), (), options)


# ---- minima


@mirrors(scipy.optimize.least_squares)
def least_squares(call):
    """Uses the exact Jacobian. The derivative is that of the full equations, with second derivatives of the residuals.

    A variable at an active bound is fixed: its derivative is zero, and the others are free.
    """

    def supply(arguments):
        if "jac" not in arguments:
            J = api.jacobian(arguments["fun"])
            arguments["fun"], arguments["jac"] = J.fun, J
            if arguments.get("jac_sparsity") is not None:  # SciPy expects a sparse matrix
                arguments["jac"] = lambda *args, **kwargs: csr_array(J(*args, **kwargs))

    found = call.run(supply)
    if not call.traced:
        return found
    value, loss, scale = call.value, _loss(call["loss"]), call["f_scale"]

    def cost(residuals):
        return 0.5 * scale**2 * np.sum(loss((np.atleast_1d(residuals) / scale) ** 2))

    x = _minimum(call, lambda x: cost(value(x)), found, _at_active_bound(call, found))
    if not holds_traced(x):
        return found
    residuals = np.atleast_1d(value(x))
    values = {"fun": with_bits(found.fun, residuals), "cost": with_bits(found.cost, cost(residuals))}
    return traced_result(found, () if found.active_mask.any() else ("grad",), x=x, info=call.info, **values)


def _at_active_bound(call, found):
    """Mask of the variables at an active bound."""
    bounds = stripped(call["bounds"])
    ends = (bounds.lb, bounds.ub) if isinstance(bounds, scipy.optimize.Bounds) else bounds
    held = (found.active_mask != 0) | _is_at_end(found.x, *ends)
    if held.any() and call.reads_traced("bounds"):
        raise UnsupportedFunctionError(
            f"{call.name}: a bound that holds a variable depends on a traced value, and the solution has no derivative "
            "through it: write the variable as that bound, and solve for the others"
        )
    return held


def _is_at_end(x, low, high):
    """Mask of the variables at the end of their range, up to rounding."""
    near = 1e-8 * np.maximum(1, abs(x))
    return (x <= np.asarray(low) + near) | (x >= np.asarray(high) - near)


def _loss(loss):
    """Loss function of squared residuals, as SciPy defines it."""
    return _LOSSES[loss] if isinstance(loss, str) else lambda z: rebound(loss)(z)[0]


_LOSSES = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * ((1 + z) ** 0.5 - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * z**0.5 - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}

#: methods of `minimize` that take a gradient, a Hessian, or Hessian-vector products
_TAKES_GRADIENT = ("cg", "bfgs", "l-bfgs-b", "tnc", "slsqp")
_TAKES_HESSIAN = ("dogleg", "trust-exact")
_TAKES_PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")

#: maximum number of variables for which a method that takes either gets the Hessian, in one recording and one sweep
MAX_HESSIAN_SIZE = 500


@mirrors(scipy.optimize.minimize)
def minimize(call):
    """Uses the exact gradient, Hessian, or Hessian-vector products, as the method takes them.

    So do constraints given as dictionaries.
    The derivative is that of a point with vanishing gradient; active bounds and constraints have no derivative yet.
    """
    method = call["method"]
    if method is None:
        method = "SLSQP" if call["constraints"] else "BFGS" if call["bounds"] is None else "L-BFGS-B"
    kind = "custom" if callable(method) else method.lower()

    def supply(arguments):
        f = _scalar_valued(arguments["fun"], arguments.get("jac") is True)
        if arguments.get("jac") is None and kind in (*_TAKES_GRADIENT, *_TAKES_HESSIAN, *_TAKES_PRODUCTS, "custom"):
            _share(arguments, "fun", "jac", api.grad(f))
        if arguments.get("hess") is None and arguments.get("hessp") is None:
            if kind in _TAKES_HESSIAN or (kind in _TAKES_PRODUCTS and np.size(arguments["x0"]) <= MAX_HESSIAN_SIZE):
                arguments["hess"] = api.hessian(f)
            elif kind in _TAKES_PRODUCTS:
                arguments["hessp"] = api.hvp(f) if hasattr(type(f), "__wengert__") else Products(f)
        if arguments.get("constraints"):
            arguments["constraints"] = _with_jacobians(arguments["constraints"])

    found = call.run(supply)
    if not call.traced:
        return found
    phi = _scalar_valued(call.value)
    if kind == "custom" and call.reads_traced("method"):
        raise UnsupportedFunctionError(
            f"{call.name}: a custom method reads a traced value, which gives the minimum no derivative: let the "
            "objective read it, or pass wengert.stop_gradient(value)"
        )
    if call["constraints"] or call["bounds"] is not None:
        _check_unconstrained(call, found.x, holds_traced(api.grad(phi)(found.x)))
    x = _minimum(call, phi, found, np.zeros(found.x.shape, dtype=bool))
    if not holds_traced(x):
        return found
    return traced_result(found, ("jac",), x=x, fun=with_bits(found.fun, phi(x)), info=call.info)


def _scalar_valued(f, has_gradient=False):
    """Wrap f for differentiation: SciPy accepts a one-element array as a scalar, and a gradient beside the value."""
    if hasattr(type(f), "__wengert__") and not has_gradient:
        return f

    @functools.wraps(f, updated=())
    def number(*args):
        y = rebound(f)(*args)
        y = y[0] if has_gradient else y
        return np.reshape(y, ()) if np.ndim(y) and np.size(y) == 1 else y

    return number


def _with_jacobians(constraints):
    """Add Jacobians to the constraints that are dictionaries."""
    if isinstance(constraints, dict):
        constraints = [constraints]
    elif not isinstance(constraints, (list, tuple)):
        return constraints
    return [
        {**c, "jac": api.jacobian(c["fun"])} if isinstance(c, dict) and c.get("jac") is None else c for c in constraints
    ]


def _minimum(call, phi, found, held):
    """The minimum of phi as a function of traced values; held variables are constants."""
    gradient = api.grad(phi)
    if not held.any():
        return call.solution(gradient, found.x, found.success, found.message, symmetric=True)
    slope = gradient(found.x)
    if not holds_traced(slope):
        return found.x
    slope = abs(plain_copy(slope))
    curvature = np.diagonal(plain_function(api.hessian(phi))(found.x))
    hidden = 1e-8 * abs(curvature) * np.maximum(1, abs(found.x))  # change of the slope over a relative move of 1e-8
    weak = held & (slope <= np.maximum(hidden, 10 * np.max(slope, where=~held, initial=0)))
    if weak.any():
        raise NonSmoothError(
            f"{call.name} has no derivative here: it is undecided whether the bound of variable "
            f"{np.flatnonzero(weak)[0]} is "
            f"active, since the slope there is {slope[weak][0]:.3g}"
        )
    fixed, place = np.where(held, found.x, 0.0), np.eye(held.size)[:, ~held]

    def free_slope(x):
        return place.T @ gradient(fixed + place @ x)

    free = call.solution(free_slope, found.x[~held], found.success, found.message, symmetric=True)
    return fixed + place @ free


def _check_unconstrained(call, x, is_traced):
    """Raise if traced values move a minimum that may lie at a bound or a constraint."""
    constraints, bounds = call["constraints"], call["bounds"]
    if constraints and (is_traced or call.reads_traced("constraints", x)):
        raise UnsupportedFunctionError(
            f"{call.name}: a minimum under constraints is not differentiable yet: solve its Karush-Kuhn-Tucker "
            "conditions "
            "with wengert.scipy.optimize.root, or eliminate the constraints by a change of variables"
        )
    if bounds is None or not (is_traced or call.reads_traced("bounds")):
        return
    bounds = stripped(bounds)
    if isinstance(bounds, scipy.optimize.Bounds):
        low, high = bounds.lb, bounds.ub
    else:
        low, high = np.array(bounds, dtype=float).T  # None becomes NaN, which equals no value
    at_bound = np.flatnonzero(_is_at_end(x, low, high))
    if at_bound.size:
        raise UnsupportedFunctionError(
            f"{call.name}: variable {at_bound[0]} is at a bound, which is not differentiable yet: minimize "
            "over the other variables with this one fixed"
        )
