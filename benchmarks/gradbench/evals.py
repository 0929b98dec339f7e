"""What each eval asks for: the arguments in its input, the function or its derivative, and the output.

A run calls ``call(variable, *others)``, where `variable` is what is differentiated: an array, a float or a tuple of
arrays.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from benchmarks.gradbench import models


class Function(NamedTuple):
    """One function of an eval."""

    arguments: Callable[[Any], tuple]
    call: Callable
    output: Callable[[Any], Any]


def array(rows):
    return np.array(rows, dtype=float)


def listed(value):
    return value.tolist()


# --------------------------------------------------------------------------------------- arguments and outputs


def gmm_arguments(given):
    variables = tuple(array(given[name]) for name in ("alpha", "mu", "q", "l"))
    return variables, array(given["x"]), given["m"], float(given["gamma"])


def gmm_output(gradient):
    return dict(zip(("alpha", "mu", "q", "l"), map(listed, gradient)))


def lstm_arguments(given):
    main, extra, state = (array(given[name]) for name in ("main_params", "extra_params", "state"))
    width = state.shape[1]
    return (main.reshape(-1, 2, 4, width), extra), state.reshape(-1, 2, width), array(given["sequence"])


def lstm_output(gradient):
    return np.concatenate([part.ravel() for part in gradient]).tolist()


def ht_arguments(given):
    """Return the angles and the hand; before the angles a shift of the barycentric coordinates, if there are any."""
    data, us, theta = given["data"], array(given["us"]), array(given["theta"])
    model = data["model"]
    floats = ("base_relatives", "inverse_base_absolutes", "base_positions", "weights")
    hand = SimpleNamespace(
        parents=tuple(model["parents"]),
        is_mirrored=model["is_mirrored"],
        triangles=np.array(model["triangles"]),
        correspondences=np.array(data["correspondences"]),
        points=array(data["points"]),
        **{name: array(model[name]) for name in floats},
    )
    return (np.concatenate((np.zeros(2), theta)), hand, us) if len(us) else (theta, hand)


def ba_arguments(given):
    """Repeat one camera, point, weight and feature, as the eval specifies, and pair cameras and points in turn."""
    n, m, p = given["n"], given["m"], given["p"]
    turn = np.arange(p)
    variables = np.concatenate((np.tile(given["cam"], n), np.tile(given["x"], m), np.full(p, float(given["w"]))))
    projections = models.Projections(turn % n, turn % m, np.tile(given["feat"], (p, 1)), n, m)
    errors = wg.compile(lambda variables: models.bundle_errors(variables, projections))
    return variables, errors, wg.jacobian(errors, sparse=models.bundle_pattern(projections))


def ba_errors(errors):
    p = len(errors) // 3
    return {
        "reproj_error": {"elements": errors[:2].tolist(), "repeated": p},
        "w_err": {"element": float(errors[-1]), "repeated": p},
    }


def ba_jacobian(J):
    """Return the first 30 elements and the last of each array of a CSR matrix."""
    arrays = {"rows": J.indptr, "cols": J.indices, "vals": J.data}
    return {name: [*values[:30].tolist(), values[-1].item()] for name, values in arrays.items()}


# ------------------------------------------------------------------------------------------------ derivatives


def compiled_gradient(f):
    return wg.compile(wg.grad(f))


def newton_direction(centroids, points):
    """Gradient of the cost over the diagonal of its Hessian, which is diagonal."""
    gradient = wg.grad(lambda c: models.clustering_cost(c, points))
    slope, curvature = wg.jvp(gradient)(centroids, np.ones_like(centroids))
    return slope / curvature


def last_of_solution(x, steps):
    return models.runge_kutta(x, steps)[-1]


#: gradients by reverse and by forward mode
MODES = {"r": wg.jacrev, "f": wg.jacfwd}


def particle_control(outer, inner):
    """Return the control with which the particle reaches the origin, as a function of the first guess."""
    field = MODES[inner](models.potential)
    miss = wg.compile(lambda w: models.particle_miss(w, field), recheck=None)
    slope = wg.compile(MODES[outer](miss), recheck=None)
    return lambda w: models.descend(miss, slope, w)


def saddle_point(outer, inner):
    """Return the point where `saddle` is least in x of the largest in y, as a function of the first guess."""
    inner_slope, outer_slope = (wg.compile(MODES[mode](models.saddle, argnums=1)) for mode in (inner, outer))
    ridge = wg.compile(lambda x, start: models.saddle_along(x, start, inner_slope), recheck=None)
    slope = wg.compile(MODES[outer](ridge), recheck=None)

    def point(start):
        x = models.descend(lambda x: ridge(x, start), lambda x: slope(x, start), start)
        return np.concatenate((x, models.highest(x, start, outer_slope)))

    return point


def function_and_gradient(arguments, f, names=("primal", "gradient"), output=listed):
    return {
        names[0]: Function(arguments, wg.compile(f), float),
        names[1]: Function(arguments, compiled_gradient(f), output),
    }


def nested(arguments, make, output):
    """Four combinations of modes."""
    return {o + i: Function(arguments, make(o, i), output) for o in MODES for i in MODES}


ADBENCH = ("objective", "jacobian")

EVALS = {
    "hello": function_and_gradient(lambda x: (float(x),), models.square, ("square", "double"), float),
    "det": function_and_gradient(
        lambda given: (array(given["A"]).reshape(given["ell"], -1),),
        models.determinant,
        output=lambda g: g.ravel().tolist(),
    ),
    "llsq": function_and_gradient(lambda given: (array(given["x"]), given["n"]), models.polynomial_misfit),
    "lse": function_and_gradient(lambda given: (array(given["x"]),), models.logsumexp),
    "gmm": function_and_gradient(gmm_arguments, models.mixture_log_posterior, ADBENCH, gmm_output),
    "lstm": function_and_gradient(lstm_arguments, models.sequence_loss, ADBENCH, lstm_output),
    "kmeans": {
        name: Function(lambda given: (array(given["centroids"]), array(given["points"])), wg.compile(f), output)
        for name, f, output in (("cost", models.clustering_cost, float), ("dir", newton_direction, listed))
    },
    "ode": {
        name: Function(lambda given: (array(given["x"]), given["s"]), f, listed)
        for name, f in (("primal", wg.compile(models.runge_kutta)), ("gradient", compiled_gradient(last_of_solution)))
    },
    "ht": {
        name: Function(ht_arguments, wg.compile(f), listed)
        for name, f in zip(ADBENCH, (models.hand_errors, wg.jacobian(models.hand_errors)))
    },
    "ba": {
        "objective": Function(ba_arguments, lambda variables, errors, J: errors(variables), ba_errors),
        "jacobian": Function(ba_arguments, lambda variables, errors, J: J(variables), ba_jacobian),
    },
    "particle": nested(lambda given: (float(given["w"]),), particle_control, float),
    "saddle": nested(lambda given: (array(given["start"]),), saddle_point, listed),
}
