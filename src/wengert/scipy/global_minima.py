"""Global minimisers: `differential_evolution`, `dual_annealing`, `shgo`, `basinhopping`, `direct` and `brute`.

They return the best of many points.  Its derivative is that of the local minimum there, as in `wengert.scipy.minima`.
If the point is not a local minimum, as may happen without a final local search, `ConvergenceError` is raised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
from scipy.optimize import OptimizeResult

from wengert.containers import plain_copy
from wengert.core.operands.var import holds_traced
from wengert.errors import ConvergenceError
from wengert.implicit.conditions import ends_of_bounds
from wengert.implicit.theorem import with_bits
from wengert.scipy.constraints import check_integers
from wengert.scipy.minima import Minimum, scalar_valued
from wengert.scipy.mirror import Value, mirrors
from wengert.scipy.results import NotDifferentiated, traced_result


@mirrors(scipy.optimize.differential_evolution)
def differential_evolution(call):
    """The objective, constraints and bounds may be traced. Integer variables have derivative zero."""
    value = call.value
    if call["vectorized"]:
        return _differentiated(call, lambda x: value(x[:, None]), call["constraints"])
    return _differentiated(call, value, call["constraints"])


@mirrors(scipy.optimize.dual_annealing)
def dual_annealing(call):
    """The objective and the bounds may be traced; ``no_local_search=True`` rarely finds a point with a derivative."""
    return _differentiated(call, call.value)


@mirrors(scipy.optimize.shgo)
def shgo(call):
    """The objective, constraints and bounds may be traced. Only the lowest of the local minima has a derivative."""
    return _differentiated(call, call.value, call["constraints"] or ())


@mirrors(scipy.optimize.direct)
def direct(call):
    """The objective and the bounds may be traced. The point must be close to the minimum: pass a small `len_tol`."""
    return _differentiated(call, call.value)


@mirrors(scipy.optimize.basinhopping)
def basinhopping(call):
    """The objective, and constraints and bounds of the local minimiser, may be traced."""
    local = call["minimizer_kwargs"] or {}
    args = local.get("args", ())
    args = args if isinstance(args, tuple) else (args,)
    value = Value(call["func"], args, {}, local.get("jac") is True, call.name)
    return _differentiated(call, value, local.get("constraints", ()), local.get("bounds"))


@mirrors(scipy.optimize.brute)
def brute(call):
    """The objective may be traced. Without `finish`, a point of the grid rarely has a derivative."""
    if not call.traced:
        return call.run()
    point, value, *grid = call.run(full_output=True)
    found = OptimizeResult(x=np.ravel(point), fun=value, success=True, message="the grid has no better point")
    objective = scalar_valued(call.value)
    minimum = Minimum(call, found, objective, None, ())
    x, fun = minimum.x, minimum.fun()
    if holds_traced((x, fun)):
        point, value = np.reshape(x, np.shape(point)), with_bits(value, fun)
        if call["full_output"]:
            grid = [grid[0], NotDifferentiated("the values on the grid", "evaluate the function there")]
    return (point, value, *grid) if call["full_output"] else point


def _differentiated(call: Any, value: Any, constraints: Any = (), bounds: Any = None) -> Any:
    """Run the solver, and attach derivatives to the best point."""
    found = call.run()
    if not call.traced:
        return found
    if found.x is None:
        raise ConvergenceError(
            f"{call.name} has not converged. {' '.join(found.message.split())} If no point satisfies all constraints, "
            "relax them, or let slack variables satisfy them; otherwise give the solver more iterations"
        )
    bounds = call["bounds"] if "bounds" in call.parameters else bounds
    if "integrality" in call.parameters and call["integrality"] is not None:
        is_integer = np.broadcast_to(call["integrality"], found.x.shape).astype(bool)
        low, high = ends_of_bounds(bounds, found.x.size)
        check_integers(call.name, is_integer, found.x, low, high)
        bounds = [(x, x) if fixed else (a, b) for x, fixed, a, b in zip(found.x, is_integer, low, high)]
    message = found.message if isinstance(found.message, str) else ". ".join(found.message)
    at = OptimizeResult(x=found.x, success=bool(found.get("success", True)), message=message)
    minimum = Minimum(call, at, scalar_valued(value), bounds, constraints)
    x, fun = minimum.x, minimum.fun()
    if not holds_traced((x, fun)):
        return found
    return traced_result(found, x=x, fun=with_bits(plain_copy(found.fun), fun), info=call.info)
