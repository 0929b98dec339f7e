"""Assignments and isotonic regression: the optimal choice is locally constant, and results are computed from it."""

import numpy as np
import scipy.optimize

from wengert import features
from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import from_list
from wengert.core.operands.var import holds_traced
from wengert.core.rebind import registration
from wengert.implicit.theorem import check_replayable, with_bits
from wengert.registry import constant
from wengert.scipy.mirror import mirrors
from wengert.scipy.results import traced_result

if features.has_mirrors():
    from wengert.rules.scipy.functions import Functions

    linear_sum_assignment = Functions("scipy.optimize").linear_sum_assignment
    constant(linear_sum_assignment)
else:

    def linear_sum_assignment(cost_matrix, maximize=False):
        """`scipy.optimize.linear_sum_assignment`; the indices are plain."""
        if holds_traced(cost_matrix):
            check_replayable("wengert.scipy.optimize.linear_sum_assignment")
            cost_matrix = plain_copy(from_list(cost_matrix))
        return scipy.optimize.linear_sum_assignment(cost_matrix, maximize)


registration.register(scipy.optimize.linear_sum_assignment, linear_sum_assignment)


@mirrors(scipy.optimize.quadratic_assignment)
def quadratic_assignment(call):
    """The permutation is plain; `fun` is differentiable with respect to both matrices."""
    found = call.run()
    if not call.traced or not call.holds_traced:
        return found
    A, B, order = from_list(call["A"]), from_list(call["B"]), found.col_ind
    fun = np.sum(A * B[order][:, order])
    return traced_result(found, ("col_ind",), fun=with_bits(found.fun, fun)) if holds_traced(fun) else found


@mirrors(scipy.optimize.isotonic_regression)
def isotonic_regression(call):
    """Each value is the weighted mean of its block. At a tie the derivative is that of the blocks that SciPy finds."""
    found = call.run()
    if not call.traced or not call.holds_traced:
        return found
    y = from_list(call["y"])
    w = np.ones(np.shape(y)) if call["weights"] is None else from_list(call["weights"])
    blocks = [slice(a, b) for a, b in zip(found.blocks[:-1], found.blocks[1:])]
    sums = np.stack([np.sum(w[block]) for block in blocks])
    means = np.stack([np.sum((w * y)[block]) for block in blocks]) / sums
    x = np.repeat(means, np.diff(found.blocks))
    return traced_result(found, ("blocks",), x=with_bits(found.x, x), weights=with_bits(found.weights, sums))
