"""Each eval of GradBench on a small input, through the protocol, beside closed forms and differences."""

import io
import json
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.special import multigammaln

import wengert as wg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
try:
    from benchmarks.gradbench import compare, evals, models, protocol
finally:
    sys.path.remove(str(ROOT))

rng = np.random.default_rng(5)


def asked(module, function, given):
    """Return the output of a function, sent and received as JSON."""
    message = {"id": 3, "kind": "evaluate", "module": module, "function": function, "input": given}
    out = io.StringIO()
    protocol.serve([json.dumps(message)], out)
    reply = json.loads(out.getvalue())
    assert reply["id"] == 3 and reply["success"], reply.get("error")
    assert {timing["name"] for timing in reply["timings"]} == {"evaluate"}
    return reply["output"]


def sixth_order(f, x, h=2e-2):
    """Central differences of order six, shape (*f(x).shape, x.size); their error is below 1e-9 for these functions."""
    found = []
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = h
        differences = (f(x + k * step) - f(x - k * step) for k in (1, 2, 3))
        found.append(sum(c * d for c, d in zip((45, -9, 1), differences)) / (60 * h))
    return np.stack(found, axis=-1)


def complex_step(f, x):
    """Gradient by complex steps."""
    eye = np.eye(x.size)
    return np.array([f(x + 1e-30j * row).imag / 1e-30 for row in eye])


def test_start_and_define_are_answered():
    out = io.StringIO()
    messages = [
        {"id": 0, "kind": "start", "eval": "det"},
        {"id": 1, "kind": "define", "module": "det"},
        {"id": 2, "kind": "define", "module": "unknown"},
        {"id": 3, "kind": "evaluate", "module": "det", "function": "gradient", "input": {}},
        {"id": 4, "kind": "analysis", "of": 3, "valid": False},
    ]
    protocol.serve(map(json.dumps, messages), out)
    start, known, unknown, failed, analysis = map(json.loads, out.getvalue().splitlines())
    assert start == {"id": 0, "tool": "wengert"} and analysis == {"id": 4}
    assert known["success"] and not unknown["success"] and not failed["success"]
    assert "KeyError" in failed["error"]


def test_runs_are_repeated_at_new_points():
    seen = []
    function = evals.Function(lambda given: (np.array([1.0, 0.0]),), lambda x: seen.append(x) or len(seen), int)
    reply = protocol.evaluate(function, {"min_runs": 3, "min_seconds": 0.0})
    assert reply["output"] == 1 and len(reply["timings"]) == 3
    assert len({tuple(x) for x in seen}) == 3 and np.allclose(seen, seen[0], rtol=1e-15)


def test_hello_module_answers():
    assert asked("hello", "square", 3.0) == 9.0 and asked("hello", "double", 3.0) == 6.0


def test_det_equals_numpy_and_cofactors():
    A = rng.normal(size=(5, 5))
    given = {"A": A.ravel().tolist(), "ell": 5}
    assert np.isclose(asked("det", "primal", given), np.linalg.det(A), rtol=1e-12)
    cofactors = np.linalg.det(A) * np.linalg.inv(A).T
    assert np.allclose(asked("det", "gradient", given), cofactors.ravel(), rtol=1e-10)


def test_llsq_equals_its_formula():
    x, n = rng.normal(size=4), 9
    t = np.linspace(-1, 1, n)
    powers = t[:, None] ** np.arange(4)
    error = powers @ x - np.sign(t)
    given = {"x": x.tolist(), "n": n}
    assert np.isclose(asked("llsq", "primal", given), error @ error / 2)
    assert np.allclose(asked("llsq", "gradient", given), powers.T @ error, rtol=1e-13)


def test_lse_equals_its_formula():
    x = rng.normal(size=20) * 30 + 900
    with mpmath.workdps(30):
        total = sum(mpmath.exp(mpmath.mpf(v)) for v in x)
        value, softmax = float(mpmath.log(total)), [float(mpmath.exp(mpmath.mpf(v)) / total) for v in x]
    assert np.isclose(asked("lse", "primal", {"x": x.tolist()}), value, rtol=1e-14)
    assert np.allclose(asked("lse", "gradient", {"x": x.tolist()}), softmax, rtol=1e-12)


def test_kmeans_equals_its_formula():
    points, centroids = rng.random((30, 3)), rng.random((4, 3))
    squares = np.sum((points[:, None] - centroids) ** 2, axis=2)
    nearest = np.argmin(squares, axis=1)
    given = {"points": points.tolist(), "centroids": centroids.tolist()}
    assert np.isclose(asked("kmeans", "cost", given), np.sum(np.min(squares, axis=1)), rtol=1e-13)
    means = np.stack([np.mean(points[nearest == j], axis=0) for j in range(4)])
    assert np.allclose(asked("kmeans", "dir", given), centroids - means, rtol=1e-11)


def test_ode_equals_exact_polynomials():
    """The solution of a linear system of index i is a polynomial of degree i + 1, exact up to degree 4."""
    x, t = rng.random(4), 2.0
    exact = np.array([t, t**2 / 2, t**3 / 6, t**4 / 24]) * np.cumprod(x)
    given = {"x": x.tolist(), "s": 6}
    assert np.allclose(asked("ode", "primal", given), exact, rtol=1e-13)
    assert np.allclose(asked("ode", "gradient", given), exact[3] / x, rtol=1e-13)


def test_gmm_equals_direct_evaluation():
    d, k, n = 3, 2, 6
    sizes = {"alpha": (k,), "mu": (k, d), "q": (k, d), "l": (k, d * (d - 1) // 2)}
    parts = {name: rng.normal(size=size) for name, size in sizes.items()}
    x = rng.normal(size=(n, d))
    given = {"d": d, "k": k, "n": n, "x": x.tolist(), "m": 1, "gamma": 0.8}
    given |= {name: part.tolist() for name, part in parts.items()}

    def direct(z):
        alpha, mu, q, l = (part.reshape(size) for part, size in zip(np.split(z, (2, 8, 14)), sizes.values()))
        return log_posterior(alpha, mu, q, l, x, 1, 0.8)

    z = np.concatenate([part.ravel() for part in parts.values()])
    assert np.isclose(asked("gmm", "objective", given), direct(z), rtol=1e-12)
    found = asked("gmm", "jacobian", given)
    gradient = np.concatenate([np.ravel(found[name]) for name in sizes])
    assert np.allclose(gradient, sixth_order(direct, z), rtol=1e-7, atol=1e-7)


def log_posterior(alpha, mu, q, l, x, m, gamma):
    """The log posterior from the densities of the normal and of the Wishart distribution."""
    (k, d), prior, likelihood = mu.shape, 0.0, 0.0
    nu = d + m + 1
    for j in range(k):
        Q = np.diag(np.exp(q[j]))
        Q[[1, 2, 2], [0, 0, 1]] = l[j]
        precision = Q.T @ Q
        logdet = np.linalg.slogdet(precision)[1]
        prior += (m * logdet - gamma**2 * np.trace(precision) - nu * d * np.log(2 / gamma**2)) / 2
        prior -= multigammaln(nu / 2, d)
        quadratic = np.einsum("ni,ij,nj->n", x - mu[j], precision, x - mu[j])
        weight = np.exp(alpha[j]) / np.sum(np.exp(alpha))
        likelihood = likelihood + weight * np.exp((logdet - quadratic - d * np.log(2 * np.pi)) / 2)
    return prior + np.sum(np.log(likelihood))


def test_lstm_equals_direct_evaluation():
    layers, steps, b = 2, 5, 3
    main, extra = rng.random((2 * layers, 4 * b)), rng.random((3, b))
    state, sequence = rng.random((2 * layers, b)), rng.integers(0, 2, (steps, b)).astype(float)
    given = dict(zip(("main_params", "extra_params", "state", "sequence"), (main, extra, state, sequence)))
    given = {name: value.tolist() for name, value in given.items()}

    def loss(z):
        parts = np.split(z, (main.size,))
        variables = parts[0].reshape(layers, 2, 4, b), parts[1].reshape(3, b)
        return models.sequence_loss(variables, state.reshape(layers, 2, b), sequence)

    z = np.concatenate((main.ravel(), extra.ravel()))
    assert np.isclose(asked("lstm", "objective", given), by_gates(main, extra, state, sequence), rtol=1e-13)
    assert np.allclose(asked("lstm", "jacobian", given), complex_step(loss, z), rtol=1e-11, atol=1e-14)


def by_gates(main, extra, state, sequence):
    """The loss with gates as one row, hidden and cell states as rows of one array."""
    state, total, b = state.copy(), 0.0, extra.shape[1]
    for x, target in pairwise(sequence):
        y = x * extra[0]
        for i in range(0, len(state), 2):
            gates = np.concatenate((y, state[i], y, state[i])) * main[i] + main[i + 1]
            forget, ingate, outgate = (1 / (1 + np.exp(-gates[j * b : (j + 1) * b])) for j in range(3))
            state[i + 1] = state[i + 1] * forget + ingate * np.tanh(gates[3 * b :])
            state[i] = y = outgate * np.tanh(state[i + 1])
        y = y * extra[1] + extra[2]
        total -= target @ (y - np.log(2 + np.sum(np.exp(y))))
    return total / sequence[1:].size


def hand(mirrored):
    """A hand of 22 bones and 12 vertices; the transforms of the rest are rigid."""

    def rigid(count):
        found = np.tile(np.eye(4), (count, 1, 1))
        found[:, :3, :3] = Rotation.random(count, rng=rng).as_matrix()
        found[:, :3, 3] = rng.normal(size=(count, 3))
        return found

    weights = rng.random((12, 22))
    return {
        "parents": [-1, 0, *(j for f in range(5) for j in (0, 2 + 4 * f, 3 + 4 * f, 4 + 4 * f))],
        "base_relatives": rigid(22).tolist(),
        "inverse_base_absolutes": rigid(22).tolist(),
        "base_positions": np.column_stack((rng.normal(size=(12, 3)), np.ones(12))).tolist(),
        "weights": (weights / weights.sum(axis=1, keepdims=True)).tolist(),
        "triangles": rng.integers(0, 12, (7, 3)).tolist(),
        "is_mirrored": mirrored,
    }


def posed(theta, model):
    """The vertices of a hand, bone by bone and vertex by vertex, with rotations by SciPy."""
    absolute, total = [], 0.0
    angles = {0: (theta[6:].reshape(5, 4)[:, :2]), 1: theta[6:].reshape(5, 4)[:, 2], 2: theta[6:].reshape(5, 4)[:, 3]}
    for i, parent in enumerate(model["parents"]):
        finger, joint = divmod(i - 2, 4)
        turn = np.eye(4)
        if i >= 2 and joint < 3:
            bend, spread = (*np.atleast_1d(angles[joint][finger]), 0.0)[:2]
            turn[:3, :3] = Rotation.from_euler("xz", (bend, spread)).as_matrix()
        relative = np.array(model["base_relatives"][i]) @ turn
        absolute.append(relative if parent < 0 else absolute[parent] @ relative)
        moved = np.array(model["base_positions"]) @ (absolute[i] @ model["inverse_base_absolutes"][i]).T
        total = total + np.array(model["weights"])[:, i : i + 1] * moved[:, :3]
    total[:, 0] *= -1 if model["is_mirrored"] else 1
    return Rotation.from_rotvec(theta[:3]).apply(total) + theta[3:6]


def test_ht_with_vertices_equals_differences():
    model, theta, points, chosen = hand(True), rng.normal(size=26) / 2, rng.normal(size=(4, 3)), [6, 0, 3, 3]
    data = {"model": model, "correspondences": chosen, "points": points.tolist()}
    given = {"theta": theta.tolist(), "data": data, "us": []}

    def errors(theta):
        return (points - posed(theta, model)[chosen]).ravel()

    assert np.allclose(asked("ht", "objective", given), errors(theta), rtol=1e-12)
    assert np.allclose(asked("ht", "jacobian", given), sixth_order(errors, theta), rtol=1e-7, atol=1e-8)


def test_ht_with_points_of_triangles_equals_differences():
    model, points, chosen = hand(False), rng.normal(size=(4, 3)), [6, 0, 3, 3]
    us, variables = rng.random((4, 2)), np.concatenate((np.zeros(2), rng.normal(size=26) / 2))
    data = {"model": model, "correspondences": chosen, "points": points.tolist()}
    given = {"theta": variables[2:].tolist(), "data": data, "us": us.tolist()}

    def errors(variables):
        u, corners = us + variables[:2], posed(variables[2:], model)[np.array(model["triangles"])[chosen]]
        barycentric = np.column_stack((u, 1 - u.sum(axis=1)))
        return (points - np.einsum("ij,ijk->ik", barycentric, corners)).ravel()

    assert np.allclose(asked("ht", "objective", given), errors(variables), rtol=1e-12)
    assert np.allclose(asked("ht", "jacobian", given), sixth_order(errors, variables), rtol=1e-7, atol=1e-8)


def test_hand_that_is_not_rotated():
    model = SimpleNamespace(**{name: np.array(value) for name, value in hand(False).items()})
    theta = np.concatenate((np.zeros(3), rng.normal(size=23)))
    assert np.allclose(models.hand_vertices(theta, model), posed(theta, hand_of(model)), rtol=1e-12)


def hand_of(model):
    return {name: value.tolist() for name, value in vars(model).items()}


def test_ba_equals_its_formula():
    camera = np.array([0.3, -0.2, 0.5, 0.1, 0.4, 1.2, 4.0, -0.3, 0.7, 0.02, -0.01])
    point, w, feature = np.array([0.6, 0.5, -1.8]), 0.7, np.array([-3.0, 2.0])
    given = {"n": 2, "m": 3, "p": 4, "cam": camera.tolist(), "x": point.tolist(), "w": w, "feat": feature.tolist()}

    def error(z):
        seen = Rotation.from_rotvec(z[:3]).apply(z[11:14] - z[3:6])
        flat = seen[:2] / seen[2]
        r2 = flat @ flat
        return z[14] * (flat * (1 + z[9] * r2 + z[10] * r2**2) * z[6] + z[7:9] - feature)

    own = np.concatenate((camera, point, [w]))
    errors = asked("ba", "objective", given)
    assert np.allclose(errors["reproj_error"]["elements"], error(own), rtol=1e-12)
    assert np.isclose(errors["w_err"]["element"], 1 - w**2) and errors["w_err"]["repeated"] == 4
    found = asked("ba", "jacobian", given)
    block = sixth_order(error, own).ravel()
    assert np.allclose(found["vals"][:30], block, rtol=1e-7, atol=1e-8) and np.isclose(found["vals"][30], -2 * w)
    assert found["rows"] == [*range(0, 121, 15), 121, 122, 123, 124][:30] + [124] * (len(found["rows"]) > 13)
    assert found["cols"] == [*range(11), 22, 23, 24, 31] * 2 + [34]


def coulomb(x, charges):
    """Gradient of the potential."""
    away = x - charges
    return -np.sum(away / np.sum(away**2, axis=1, keepdims=True) ** 1.5, axis=0)


def test_particle_ends_in_the_origin():
    """The path ends in the origin."""
    control = asked("particle", "rf", {"w": 0.2072})
    assert abs(control - 0.2072) < 1e-3 and models.particle_miss(control, coulomb) < 1e-6


@pytest.mark.parametrize("mode", evals.MODES)
def test_derivatives_of_a_path_by_both_modes(mode):
    field = evals.MODES[mode](models.potential)
    x, charges = np.array([3.0, 7.0]), np.array([[10.0, 0.0], [10.0, 9.8]])
    assert np.allclose(field(x, charges), coulomb(x, charges), rtol=1e-13)
    slope = evals.MODES[mode](models.particle_miss)(0.2, coulomb)
    step = models.particle_miss(0.2 + 1e-30j, coulomb).imag / 1e-30
    assert np.isclose(slope, step, rtol=1e-9)


def test_saddle_finds_the_same_minima():
    """Both parts are minima of a square, found by the same steps."""
    start = np.array([1.0, -0.5])
    part = models.descend(lambda x: x @ x, lambda x: 2 * x, start)
    assert np.allclose(asked("saddle", "rf", {"start": start.tolist()}), [*part, *part], rtol=1e-9, atol=1e-15)


def test_table_has_no_time_of_results_that_are_not_valid():
    lines = [compare.Line("n=2", True, [9_000, 2_000, 4_000]), compare.Line("n=2", True, [8_000, 5_000, 7_000])]
    assert compare.cell(lines) == compare.Cell(8e-6, 2e-6)
    wrong = compare.cell([*lines, lines[0]._replace(valid=False)])
    cells = {
        ("n=2", "wengert"): compare.cell(lines),
        ("n=2", "jax"): wrong,
        ("n=2", "manual"): compare.Cell(1e-6, 1e-6),
    }
    assert compare.rows("lse", cells) == ["| lse | n=2 | 8 us | not valid |  | 2 us | not valid |  | 1 us |"]
    (sentence,) = compare.summary({"lse": cells, "ode": cells})
    assert sentence == "Time over that of the manual tool: geometric mean 2; lse 2."
    assert compare.rows("ode", cells)[0].endswith("| 1 us* |")


def test_rounding_errors_of_a_compiled_field_are_no_mismatch_near_the_solution():
    field = wg.compile(wg.jacfwd(models.potential))
    miss = wg.compile(lambda w: models.particle_miss(w, field), recheck=1)
    for w in (0.0, 0.20693109570438917, 0.20693109570438917):
        assert miss(w) == pytest.approx(models.particle_miss(w, wg.jacfwd(models.potential)), rel=1e-9)
