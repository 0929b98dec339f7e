"""SciPy's older interfaces to minimisers and to quasi-Newton methods: `fmin` and its relatives, `brent`, `broyden1`.

Their results are points, or tuples of a point, a value and counts.  Points and values are differentiated as minima
(`wengert.scipy.minima`) or as roots of the equations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.optimize
from scipy.optimize import OptimizeResult

from wengert.core.operands.var import holds_traced
from wengert.errors import UnsupportedFunctionError
from wengert.implicit.theorem import with_bits
from wengert.scipy.minima import Minimum, scalar_valued
from wengert.scipy.mirror import Value, mirrors
from wengert.scipy.results import traced_result

#: minimisers whose full output is (x, value, counts ...), with the position of the flag, which is 0 for success
_MINIMISERS = {"fmin": 4, "fmin_bfgs": 6, "fmin_cg": 4, "fmin_ncg": 5, "fmin_powell": 5}

#: minimisers with line searches, whose flag is 2 if there is no decrease
_LINE_SEARCHES = ("fmin_bfgs", "fmin_cg", "fmin_ncg")

#: minimisers whose full output holds arrays, which would lose their derivatives
_WITH_ARRAYS = ("fmin_bfgs", "fmin_powell")


def _minimiser(name: str) -> Callable:
    flag = _MINIMISERS[name]

    @mirrors(getattr(scipy.optimize, name))
    def solver(call):
        """The derivative is that of the minimum. With ``full_output=True`` the value has a derivative too."""
        if not call.traced:
            return call.run()
        x, value, *others = call.run(full_output=True)
        has_stalled = name in _LINE_SEARCHES and others[flag - 2] == 2
        minimum = _minimum(call, x, others[flag - 2] == 0, call.value, has_stalled=has_stalled)
        traced, fun = minimum.x, minimum.fun()
        if not holds_traced((traced, fun)):
            return (x, value, *others) if call["full_output"] else (x, *others[flag - 1 :]) if call["retall"] else x
        if call["retall"] or (call["full_output"] and name in _WITH_ARRAYS):
            raise UnsupportedFunctionError(
                f"{call.name}: the full output has arrays without derivatives: use wengert.scipy.optimize.minimize"
            )
        return (traced, with_bits(value, fun), *others) if call["full_output"] else traced

    return solver


fmin, fmin_bfgs, fmin_cg, fmin_ncg, fmin_powell = map(_minimiser, _MINIMISERS)


@mirrors(scipy.optimize.fmin_l_bfgs_b)
def fmin_l_bfgs_b(call):
    """The objective and the bounds may be traced; point and value have derivatives."""
    found = call.run()
    if not call.traced:
        return found
    x, value, details = found
    flag = details["warnflag"]
    minimum = _minimum(call, x, flag == 0, _alone(call), call["bounds"], has_stalled=flag == 2)
    traced, fun = minimum.x, minimum.fun()
    if not holds_traced((traced, fun)):
        return found
    return traced, with_bits(value, fun), traced_result(details, ("funcalls", "warnflag", "task"))


@mirrors(scipy.optimize.fmin_tnc)
def fmin_tnc(call):
    """The objective and the bounds may be traced; the point has derivatives."""
    x, *counts = call.run()
    if not call.traced:
        return (x, *counts)
    minimum = _minimum(call, x, counts[-1] in (0, 1, 2), _alone(call), call["bounds"])
    return (minimum.x, *counts)


@mirrors(scipy.optimize.fmin_slsqp)
def fmin_slsqp(call):
    """The objective, constraints and bounds may be traced. With ``full_output=True`` the value has a derivative too."""
    if not call.traced:
        return call.run()
    x, value, *others = call.run(full_output=True)
    args = call.value.args
    constraints = [
        {"type": kind, "fun": f, "args": args}
        for kind, several, single in (("eq", "eqcons", "f_eqcons"), ("ineq", "ieqcons", "f_ieqcons"))
        for f in (*call[several], call[single])
        if f is not None
    ]
    bounds = call["bounds"] if np.size(call.plain("bounds")) else None
    minimum = _minimum(call, x, others[1] == 0, call.value, bounds, constraints, others[2], others[1] == 8)
    traced, fun = minimum.x, minimum.fun()
    return (traced, with_bits(value, fun), *others) if call["full_output"] else traced


@mirrors(scipy.optimize.fmin_cobyla)
def fmin_cobyla(call):
    """The objective and the constraints may be traced."""
    x = call.run()
    if not call.traced:
        return x
    args = call.value.args if call["consargs"] is None else tuple(call["consargs"])
    functions = [call["cons"]] if callable(call["cons"]) else call["cons"]
    constraints = [{"type": "ineq", "fun": f, "args": args} for f in functions]
    return _minimum(call, x, True, call.value, None, constraints).x


def _alone(call):
    """Return the value of the objective, whose function also returns the gradient unless one is given."""
    with_gradient = call["fprime"] is None and not call["approx_grad"]
    return Value(call["func"], call.value.args, {}, with_gradient, call.name)


def _minimum(
    call, x, success, value, bounds=None, constraints=(), message="the solver reports failure", has_stalled=False
):
    found = OptimizeResult(x=np.ravel(x), success=bool(success), message=message)
    return Minimum(call, found, scalar_valued(value), bounds, constraints, has_stalled=has_stalled)


def _scalar_minimiser(name: str, has_bounds: bool = False) -> Callable:
    @mirrors(getattr(scipy.optimize, name))
    def solver(call):
        """The slope vanishes at the minimum, or a bound is active. The bracket has zero derivative."""
        found = call.run(full_output=True)
        x, value, *others = found
        if call.traced:
            bounds = [(call["x1"], call["x2"])] if has_bounds else None
            minimum = _minimum(call, x, not has_bounds or others[0] == 0, lambda x: call.value(x[0]), bounds)
            fun = minimum.fun()
            if holds_traced((minimum.x, fun)):
                x, value = minimum.x[0], with_bits(value, fun)
        return (x, value, *others) if call["full_output"] else x

    return solver


brent, golden = map(_scalar_minimiser, ("brent", "golden"))
fminbound = _scalar_minimiser("fminbound", True)


def _equations(name: str) -> Callable:
    @mirrors(getattr(scipy.optimize, name))
    def solver(call):
        """The derivative is that of the root, whatever the approximation of its Jacobian."""
        x = call.run()
        return call.solution(call.residual, x, True, "") if call.traced else x

    return solver


_ROOT_FINDERS = "anderson broyden1 broyden2 diagbroyden excitingmixing linearmixing newton_krylov".split()
anderson, broyden1, broyden2, diagbroyden, excitingmixing, linearmixing, newton_krylov = map(_equations, _ROOT_FINDERS)
