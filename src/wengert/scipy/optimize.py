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

import functools
import importlib.util
import warnings

import numpy as np
import scipy.optimize
from scipy.optimize import NonlinearConstraint, OptimizeResult

from wengert import api
from wengert.containers import plain_copy
from wengert.core.dispatch import refusing
from wengert.core.dispatch.dispatch import from_list, stacked
from wengert.core.levels import running
from wengert.core.operands.var import holds_traced
from wengert.core.rebind import registration
from wengert.implicit.stripped import stripped
from wengert.implicit.theorem import Equations, check_replayable
from wengert.program.tracing.observer import unobserved
from wengert.scipy import recorded
from wengert.scipy.combinatorial import isotonic_regression, linear_sum_assignment, quadratic_assignment
from wengert.scipy.constraints import Bounds, LinearConstraint
from wengert.scipy.fits import curve_fit, leastsq
from wengert.scipy.global_minima import basinhopping, brute, differential_evolution, direct, dual_annealing, shgo
from wengert.scipy.linear_programs import linprog, milp
from wengert.scipy.minima import least_squares, lsq_linear, minimize, minimize_scalar, nnls
from wengert.scipy.mirror import mirrors
from wengert.scipy.newton import Newton
from wengert.scipy.older_solvers import (
    anderson,
    brent,
    broyden1,
    broyden2,
    diagbroyden,
    excitingmixing,
    fmin,
    fmin_bfgs,
    fmin_cg,
    fmin_cobyla,
    fmin_l_bfgs_b,
    fmin_ncg,
    fmin_powell,
    fmin_slsqp,
    fmin_tnc,
    fminbound,
    golden,
    linearmixing,
    newton_krylov,
)
from wengert.scipy.results import recorded_result, traced_result

__all__ = [
    "Bounds", "LinearConstraint", "NonlinearConstraint", "anderson", "basinhopping", "bisect", "brent", "brenth",
    "brentq", "broyden1", "broyden2", "brute", "curve_fit", "diagbroyden", "differential_evolution", "direct",
    "dual_annealing", "excitingmixing", "fixed_point", "fmin", "fmin_bfgs", "fmin_cg", "fmin_cobyla",
    "fmin_l_bfgs_b", "fmin_ncg", "fmin_powell", "fmin_slsqp", "fmin_tnc", "fminbound", "fsolve", "golden",
    "isotonic_regression", "least_squares", "leastsq", "linear_sum_assignment", "linearmixing", "linprog",
    "lsq_linear", "milp", "minimize", "minimize_scalar", "newton", "newton_krylov", "nnls", "quadratic_assignment",
    "ridder", "root", "root_scalar", "shgo", "toms748",
]  # fmt: skip


def _share(arguments, function, slot, derivative):
    """Add a derivative to SciPy's arguments, and replace the function by one that shares its evaluations."""
    arguments[function] = derivative.fun
    arguments[slot] = derivative


# ---- systems of equations


@mirrors(scipy.optimize.root, is_recordable=True)
def root(call):
    """Methods ``'hybr'`` and ``'lm'`` use the exact Jacobian.

    Method ``'newton'``, which SciPy does not have, is Newton's method with the exact Jacobian, sparse for large
    systems, and with damping. It finds a root, not necessarily the one that MINPACK finds. Its option is ``maxiter``,
    and `tol` bounds the last correction relative to `x`.
    """
    if call["method"].lower() == "newton" and call.options["derivs"] == "auto":  # SciPy's own `root` has no such method
        return _newton_root(call)
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


#: number of unknowns from which Newton's method records the equations, for a sparse Jacobian
MIN_SPARSE = 50


def _newton_root(call):
    """Return the root that Newton's method finds; see `wengert.scipy.newton`."""
    options = dict(call["options"] or {})
    unknown = options.keys() - {"maxiter"}
    if unknown:
        raise TypeError(f"{call.name}: method='newton' has the option 'maxiter', not {', '.join(map(repr, unknown))}")
    start = _flat_start(call["x0"])
    n = np.size(start)
    settings = {"tol": call["tol"], **options}
    if call["jac"] is None and call["callback"] is None:
        x, outcome = call.recorded(Newton(**settings), (start,), (n,), settings, takes_derivatives=False)
        if x is not None:
            return recorded_result(x=x, success=outcome[0], status=outcome[1], message=outcome[2])
    check_replayable(call.name)
    value, slopes, jac = _traced_equations(call, n) if call.traced else _plain_equations(call, n)
    x0 = np.asarray(plain_copy(start), dtype=float)
    method = Newton(**settings)
    run, status = method.run(value, slopes, x0, call["callback"])
    message = method.message(status)
    counts = {"nfev": run.nfev, "njev": run.njev, "nit": run.nit}
    found = OptimizeResult(
        x=run.x, fun=run.y, success=status == 1, status=status, message=message, method="newton", **counts
    )
    if not call.traced:
        return found
    x = call.solution(call.residual, found.x, found.success, message, jac=jac)
    return traced_result(found, ("fun",), x=x, info=call.info) if holds_traced(x) else found


def _plain_equations(call, n):
    """Return the equations and their Jacobian as functions of x, outside derivatives."""
    f, jac, args = call["fun"], call["jac"], call.residual.args
    value = call.residual
    if call.returns_derivatives:
        return value, lambda x: f(x, *args)[1], None
    if callable(jac):
        return value, lambda x: jac(x, *args), None
    if n < MIN_SPARSE:
        J = api.jacobian(f)
        return value, lambda x: np.reshape(J(x, *args), (-1, n)), None
    compiled = api.compile(f)
    J = api.jacobian(compiled, sparse="auto")
    # an enclosing compiled function observes the code of the equations; under observation the Jacobian would be dense
    return lambda x: compiled(x, *args), lambda x: unobserved(J, x, *args), None


def _traced_equations(call, n):
    """Like `_plain_equations`, within a derivative; also return the Jacobian as `wengert.implicit.root` expects it."""
    given, args = call["jac"], call.residual.args
    jac = "dense" if n < MIN_SPARSE else api.jacobian(call.residual, sparse="auto")
    if callable(given):
        jac = functools.partial(_with_args, given, args)
    equations = Equations(call.residual, (), (n,), call.name, jac, "auto", False, False)
    return equations.value, lambda x: equations.jacobian(x)[1], jac


def _with_args(f, args, x):
    return f(x, *args)


def _recorded_root(call, takes_jacobian):
    """Append the root to the recording; return it with the outcome of SciPy's solver."""
    options = {name: call[name] for name in ("method", "tol", "options")}
    if not (takes_jacobian and call["jac"] is None and call["callback"] is None):
        return None, None
    x0 = _flat_start(call["x0"])
    by_columns, has_jacobian = (options["options"] or {}).get("col_deriv"), call.options["derivs"] == "auto"
    solve = recorded.Root(options, by_columns, has_jacobian)
    return call.recorded(solve, (x0,), (np.size(x0),), options, takes_derivatives=has_jacobian)


def _flat_start(x0):
    x0 = stacked(x0) if isinstance(x0, (list, tuple)) and holds_traced(x0) else x0
    x0 = x0 if holds_traced(x0) else np.asarray(x0)
    return np.reshape(x0, (-1,))


@mirrors(scipy.optimize.fsolve, is_recordable=True)
def fsolve(call):
    """Uses the exact Jacobian."""

    def supply(arguments):
        if arguments.get("fprime") is None:
            _share_matrix(arguments, "func", "fprime", arguments.get("col_deriv"))

    if call["fprime"] is None and not call["full_output"]:
        names = ("col_deriv", "xtol", "maxfev", "band", "epsfcn", "factor", "diag")
        options, x0 = {name: call[name] for name in names}, _flat_start(call["x0"])
        has_jacobian = call.options["derivs"] == "auto"
        solve = recorded.Fsolve(options, has_jacobian)
        x, _ = call.recorded(solve, (x0,), (np.size(x0),), options, takes_derivatives=has_jacobian)
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
    @mirrors(getattr(scipy.optimize, name), is_recordable=True)
    def solver(call):
        """The ends of the bracket have zero derivative."""
        if not (call["full_output"] or not call["disp"]):
            options = {key: value for key, value in call.arguments.items() if key in _TOLERANCES}
            ends = call["a"], call["b"]
            x, _ = call.recorded(recorded.Bracketing(name, options), ends, (), options, takes_derivatives=False)
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


@mirrors(scipy.optimize.newton, is_recordable=True)
def newton(call):
    """Uses the exact ``fprime``, as in Newton's method, or Halley's if ``fprime2`` is given.

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
            is_newton = call["x1"] is None and call.options["derivs"] == "auto"
            solve = recorded.Newton(options, is_newton)
            x, _ = call.recorded(solve, starts, (), options, takes_derivatives=is_newton)
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


@mirrors(scipy.optimize.root_scalar, is_recordable=True)
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
    takes_derivatives = method == "newton"
    return call.recorded(solve, tuple(starts), (), options, takes_derivatives=takes_derivatives)


# ---- test functions


def rosen(x):
    """`scipy.optimize.rosen`, Rosenbrock's function."""
    x = from_list(x)
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0, axis=0)


def rosen_der(x):
    """`scipy.optimize.rosen_der`, its gradient."""
    x = from_list(x)
    inner = 200 * (x[1:-1] - x[:-2] ** 2) - 400 * (x[2:] - x[1:-1] ** 2) * x[1:-1] - 2 * (1 - x[1:-1])
    first = -400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0])
    return np.concatenate([np.stack([first]), inner, np.stack([200 * (x[-1] - x[-2] ** 2)])])


# ---- SciPy's own names in followed code

if importlib.util.find_spec("scipy.optimize.elementwise"):  # SciPy 1.15
    from wengert.scipy import elementwise

    __all__ += ["elementwise"]
for _class in (Bounds, LinearConstraint):
    registration.register_class(getattr(scipy.optimize, _class.__name__), _class)
for _function in (rosen, rosen_der):
    registration.register(getattr(scipy.optimize, _function.__name__), _function)
refusing.install_iterative("scipy.optimize")
