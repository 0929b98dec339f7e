"""`scipy.optimize.elementwise`: many independent scalar roots and minima at once, with their derivatives."""

import numpy as np
from scipy.optimize import OptimizeResult, elementwise
from scipy.optimize.elementwise import bracket_minimum, bracket_root

from wengert import api
from wengert.core.operands.var import holds_traced
from wengert.implicit.theorem import with_bits
from wengert.scipy.mirror import mirrors
from wengert.scipy.results import traced_result

__all__ = ["bracket_minimum", "bracket_root", "find_minimum", "find_root"]


@mirrors(elementwise.find_root, "elementwise")
def find_root(call):
    """The function is elementwise, and so is the derivative of its roots. The bracket has zero derivative."""
    return _differentiated(call, call.value, False)


@mirrors(elementwise.find_minimum, "elementwise")
def find_minimum(call):
    """The function is elementwise, and its slope vanishes at the minima. The bracket has zero derivative."""
    return _differentiated(call, api.derivative(call.value), True)


def _differentiated(call, residual, is_minimum):
    found = call.run()
    if not call.traced:
        return found
    found = OptimizeResult(found)
    message = f"{np.sum(~np.asarray(found.success))} of {np.size(found.success)} elements have not converged"
    x = call.solution(residual, found.x, found.success, message, elementwise=True, symmetric=is_minimum)
    if not is_minimum:
        return traced_result(found, ("f_x",), x=x, info=call.info) if holds_traced(x) else found
    value = call.value(x)
    if not holds_traced((x, value)):
        return found
    return traced_result(found, x=x, f_x=with_bits(found.f_x, value), info=call.info)
