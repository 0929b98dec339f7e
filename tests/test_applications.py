"""Whole applications: derivatives, solutions and counts of calls against closed forms, known values and differences.

A function of `CLAIMS` runs one application and returns its claims, each an error and its bound.  `MUTATIONS` changes a
model or a reference, and names the claims that must fail then.
"""

import os
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares, minimize, root
from scipy.optimize._numdiff import approx_derivative, group_columns  # solvers call these with jac_sparsity

import applications as app
import wengert as wg

EPS = np.finfo(float).eps
CLAIMS = {}


def application(function):
    CLAIMS[function.__name__] = function
    return function


def relative(found, expected):
    """Return the maximum difference relative to the largest entry; both may be sparse."""
    return abs(found - expected).max() / abs(expected).max()


# ---- options -------------------------------------------------------------------------------------


def greeks_by_programs(x, strike):
    """Return the greeks from programs of the price on whole arrays."""
    first = wg.record(app.price, x, args=(strike,)).vjp()
    second = wg.record(lambda x, strike: np.sum(app.price(x, strike)), x, args=(strike,)).hvp()
    y, slopes = first(x, np.ones_like(strike), strike)
    np.testing.assert_allclose(y, app.price(x, strike), rtol=1e-13, atol=1e-13)
    direction = np.zeros_like(x)
    direction[app.SPOT] = 1
    return app.named_greeks(slopes, second(x, direction, strike))


@application
def black_scholes_greeks(options=50_000):
    x, strike = app.some_options(options)
    by_programs = app.errors_of_greeks(greeks_by_programs(x, strike), x, strike)
    by_differences = app.errors_of_greeks(app.greeks_by_differences(x, strike), x, strike)
    claims = {greek: (error, 1e-13) for greek, error in by_programs.items()}
    for greek, error in by_differences.items():
        claims[f"{greek}: error / error of differences"] = by_programs[greek] / error, 1e-2
    return claims


# ---- equations -----------------------------------------------------------------------------------


@application
def bratu_newton(points=30, fold_points=15):
    jacobian = wg.jacobian(app.bratu, sparse=True)
    start = np.zeros(points**2)
    pattern = wg.sparsity(app.bratu, start, args=(app.LAMBDA,))
    groups = group_columns(pattern)

    def difference_jacobian(u, parameter):
        return approx_derivative(app.bratu, u, method="2-point", sparsity=(pattern, groups), args=(parameter,))

    u, steps = app.newton_steps(start, jacobian)
    by_differences, more_steps = app.newton_steps(start, difference_jacobian)
    first, second, third = np.log([step for step in steps if step > 1e-11][-3:])
    by_hand = app.bratu_jacobian_by_hand(u, app.LAMBDA)
    along = wg.jacobian(app.branch, sparse=True)
    coarse, fine = (app.fold_of_bratu(n, along) for n in ((fold_points - 1) // 2, fold_points))
    return {
        "Jacobian, relative error": (relative(jacobian(u, app.LAMBDA), by_hand), 4 * EPS),
        "2 - order of convergence": (2 - (third - second) / (second - first), 0.1),
        "change of u in the last step": (steps[-1], 1e-11),
        "steps / steps with differences": (len(steps) / len(more_steps), 1),
        "Jacobian takes sweeps in colours": (jacobian.plan.colours is not None, 0),
        "colours / colours of SciPy": (wg.colouring(pattern).count / (groups.max() + 1), 1),
        "difference of the two solutions": (np.max(np.abs(u - by_differences)), 1e-8),
        # half the grid spacing: one step of Richardson's extrapolation
        "fold, error of extrapolated parameter": (abs((4 * fine - coarse) / 3 - app.FOLD), 40 / fold_points**4),
    }


@application
def brusselator_loops():
    model = app.Tube()
    jacobian = wg.jacobian(model.residual)
    solutions, calls = [], []
    for jac in jacobian, None:
        model.calls = 0
        solutions.append(root(model.residual, model.start(), jac=jac))
        calls.append(model.calls)
    z = solutions[0].x
    u, v = z[: model.n], z[model.n :]
    return {
        # an entry is a sum of a few terms, none larger than the largest entry
        "Jacobian, relative error": (relative(jacobian(z), model.jacobian_by_hand(z)), 4 * EPS),
        "mean(u) - A": (abs(np.mean(u) - model.A), 1e-12),  # the diffusion terms cancel
        "mean(u^2 v) - A B": (abs(np.mean(u**2 * v) - model.A * model.B), 1e-7),
        "difference of the two solutions": (np.max(np.abs(z - solutions[1].x)), 1e-6),
        "calls / calls with differences": (calls[0] / calls[1], 0.2),
        "no convergence": (not solutions[0].success, 0),
        "1 / amplitude": (1 / max(np.ptp(u), EPS), 1),  # the uniform state satisfies the identities too
    }


@application
def brusselator_sparse(cells=8):
    jacobian = wg.jacobian(app.square_rates, argnums=1, sparse=True, format="csc")
    start = app.square_start(cells)
    pattern = wg.sparsity(lambda z: app.square_rates(0.0, z), start)
    rtol, atol = 1e-5, 1e-7

    def solve(method, **options):
        rates = app.Counted(app.square_rates)
        found = solve_ivp(rates, (0, 6.0), start, method, rtol=rtol, atol=atol, **options)
        return found, found.y[:, -1], rates.calls

    exact = {method: solve(method, jac=jacobian) for method in ("BDF", "Radau")}
    bdf, radau = exact["BDF"][1], exact["Radau"][1]
    claims = {
        "Jacobian, relative error": (relative(jacobian(6.0, bdf), app.square_jacobian_by_hand(bdf)), 4 * EPS),
        "difference of BDF and Radau": (relative(bdf, radau), 1e-2),
    }
    for method, name, options in (
        ("BDF", "sparse differences", {"jac_sparsity": pattern}),
        ("BDF", "dense differences", {}),
        ("Radau", "sparse differences", {"jac_sparsity": pattern}),
    ):
        ours, z, calls = exact[method]
        theirs, z_theirs, their_calls = solve(method, **options)
        off = np.sqrt(np.mean(((z_theirs - z) / (atol + rtol * np.abs(z))) ** 2))
        claims |= {
            f"{method}, {name}: error / tolerance": (off, 0.1),
            f"{method}, {name}: ratio of evaluations": (calls / their_calls, 0.99),
            f"{method}, {name}: difference of Jacobians": (abs(ours.njev - theirs.njev), 0),
            f"{method}, {name}: difference of factorisations": (abs(ours.nlu - theirs.nlu), 0),
            f"{method}, {name}: no convergence": (not (ours.success and theirs.success), 0),
        }
    return claims


# ---- minima --------------------------------------------------------------------------------------


@application
def bryson_denham(intervals=9):
    found, calls, shadow_price = app.least_effort(intervals, app.LIMIT)
    _, more_calls, _ = app.least_effort(intervals, app.LIMIT, exact=False)
    z, multipliers = found.x, found.v[0]
    p = np.random.default_rng(1963).standard_normal(z.size)
    across = (app.control_equations(z + p) - app.control_equations(z - p)) / 2  # exact: the equations are quadratic
    by_hand = np.diag(app.control_hessian_by_hand(z, multipliers))
    apart = 1e-3 * app.LIMIT
    above, below = (app.least_effort(intervals, app.LIMIT + step)[0].fun for step in (apart, -apart))
    x = app.states_and_force(z)[0][0]
    return {
        "J @ p against differences": (np.max(np.abs(app.control_jacobian(z) @ p - across)), 1e-12),
        "Hessian": (abs(app.control_hessian(z, multipliers) - by_hand).max(), 1e-14),
        "effort": (abs(found.fun - 4 / (9 * app.LIMIT)), 1e-6),
        # collocation is exact if intervals end where the mass reaches and leaves the limit
        "d effort / d limit, relative": (abs(shadow_price / (-4 / (9 * app.LIMIT**2)) - 1), 5e-4),
        "d effort / d limit, against two solutions": (abs((above - below) / (2 * apart) / shadow_price - 1), 1e-2),
        "position": (np.max(np.abs(x - app.position_in_closed_form(np.linspace(0, 1, intervals + 1)))), 1e-4),
        "gradient of the Lagrangian": (found.optimality, 1e-6),
        "calls / calls with differences": (calls / more_calls, 0.2),
    }


@application
def bundle_adjustment(cameras=8, points=100):
    scene = app.Scene(cameras, points)
    jacobian = wg.jacobian(scene.residuals, sparse=True)

    def solve(**options):
        residuals = app.Counted(scene.residuals)
        settings = {"x_scale": "jac", "tr_solver": "lsmr", "ftol": 1e-9, "xtol": 1e-9, "max_nfev": 100}
        return least_squares(residuals, scene.start, **settings, **options), residuals.calls

    exact, calls = solve(jac=jacobian)
    differences, more_calls = solve(jac_sparsity=wg.sparsity(scene.residuals, scene.start))
    z, J = exact.x, jacobian(exact.x)
    growth = scene.growth(z)
    v = np.random.default_rng(2000).standard_normal(z.size) * np.abs(z)
    h = 1e-5
    across = (scene.residuals(z + h * v) - scene.residuals(z - h * v)) / (2 * h)
    freedom = exact.fun.size - z.size + app.GAUGE
    before, after = (np.sqrt(np.mean(r**2)) for r in (scene.residuals(scene.start), exact.fun))
    return {
        # pictures do not show the size of the scene
        "J @ (growth of the scene), relative": (np.max(np.abs(J @ growth) / (abs(J) @ np.abs(growth))), 1e-14),
        "J @ v against differences, relative": (relative(J @ v, across), 1e-6),
        "nonzeros in a row - 12": (np.ptp([*np.diff(J.indptr), 12]), 0),
        "difference of the two minima, relative": (abs(differences.cost / exact.cost - 1), 1e-6),
        "calls / calls with differences": (calls / more_calls, 0.2),
        "chi squared, deviation / sigma": (
            abs(np.sum((exact.fun / app.NOISE) ** 2) - freedom) / np.sqrt(2 * freedom), 4.0
        ),
        "RMS error, pixels": (after, 0.5),
        "RMS error / RMS error at the start": (after / before, 0.05),
        "no convergence": (not exact.success, 0),
    }  # fmt: skip


@application
def kepler_orbit():
    t, v, error = app.observe()
    elements = app.fit_orbit(v, t, error)
    J = wg.jacobian(app.orbit_residuals)(elements, t, v, error)
    by_hand = app.orbit_jacobian_by_hand(elements, t) / error[:, None]
    Q, R = np.linalg.qr(J)
    inverse = np.linalg.inv(R)
    deviations = np.linalg.norm(inverse, axis=1)
    chi_squared, freedom = np.sum(app.orbit_residuals(elements, t, v, error) ** 2), t.size - elements.size

    influence = wg.jacobian(app.fit_orbit)(v, t, error)  # d elements / d velocities
    linear = inverse @ Q.T / error  # the same for a linearised model
    k = np.argmax(np.abs(influence[0]) * error)  # the observation with the largest influence on the period
    step = np.where(np.arange(t.size) == k, 0.1 * error[k], 0.0)
    ends = [app.fit_orbit(v + sign * step, t, error, elements) for sign in (1, -1)]
    refits = (ends[0] - ends[1]) / (2 * step[k])
    return {
        "Jacobian, relative error by columns": (
            np.max(np.max(np.abs(J - by_hand), axis=0) / np.max(np.abs(by_hand), axis=0)), 1e-11
        ),
        "elements, error / standard deviation": (np.max(np.abs(elements - app.ORBIT) / deviations), 3),
        "chi squared, deviation / sigma": (abs(chi_squared - freedom) / np.sqrt(2 * freedom), 4),
        "influence against refits, relative": (np.max(np.abs(refits / influence[:, k] - 1)), 1e-3),
        # the fit needs second derivatives of the model
        "influence: error / error of the linearised model": (
            np.max(np.abs((influence[:, k] - refits) / (influence[:, k] - linear[:, k]))[[0, 2, 4]]), 1e-2
        ),
        "standard deviations from the influences, relative": (
            np.max(np.abs(np.linalg.norm(influence * error, axis=1) / deviations - 1)), 0.5
        ),
    }  # fmt: skip


# ---- a loop under a memory budget ----------------------------------------------------------------


@application
def heat_assimilation(memory=4_000_000):
    plate, assimilation, sizes = app.assimilated(memory=memory)
    u0, truth = assimilation.background(), plate.truth()
    gradient = wg.grad(assimilation.cost)
    gradient(u0)
    plate.runs = 0
    slope = gradient(u0)
    factor = plate.runs / plate.steps
    direction = np.random.default_rng(1).standard_normal(u0.shape)
    forward = wg.jvp(assimilation.cost, u0, direction)[1]
    found = minimize(
        lambda x: assimilation.cost(x.reshape(u0.shape)),
        u0.ravel(),
        jac=lambda x: gradient(x.reshape(u0.shape)).ravel(),
        method="L-BFGS-B",
        options={"maxiter": 30},
    )
    error, first_error = (np.linalg.norm(u - truth) for u in (found.x.reshape(u0.shape), u0))
    return {
        "peak of the schedule / budget": (assimilation.schedule.peak_bytes / memory, 1),
        "budget / memory without checkpoints": (memory / (plate.steps * sizes["tape_bytes"]), 0.5),
        "steps run / time steps, error of prediction": (abs(factor - assimilation.schedule.factor), 2 / plate.steps),
        "gradient against forward mode, relative": (abs(np.sum(slope * direction) / forward - 1), 1e-10),
        "cost / cost at the start": (found.fun / assimilation.cost(u0), 0.1),
        "error of the state / error of the interpolation": (error / first_error, 0.5),
    }


MEMORY = """
import wengert
import applications as app
from benchmarks.measure import peak_memory
small = app.Assimilation(app.Plate(app.SPACING, 20), None)
wengert.grad(small.cost, small.plate.truth())  # imports modules
_, assimilation, _ = app.assimilated()
u0 = assimilation.background()
assimilation.cost(u0)
before = peak_memory()
wengert.grad(assimilation.cost)(u0)
print(peak_memory() - before, assimilation.schedule.peak_bytes)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the system does not report the peak")
def test_gradient_of_the_assimilation_stays_within_its_budget():
    folder = Path(__file__).resolve().parent
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", MEMORY],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(folder.parent), *filter(None, sys.path)])},
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    measured, predicted = map(float, done.stdout.split())
    assert 0 < measured <= predicted <= 4e6


# ---- tests ---------------------------------------------------------------------------------------


def failing(claims):
    return {name: (error, bound) for name, (error, bound) in claims.items() if not error <= bound}


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_hold(name):
    assert failing(CLAIMS[name]()) == {}


def scaled(factor):
    """Return a change that multiplies what a function returns."""
    return lambda function: lambda *args: factor * function(*args)


def with_other_vega(closed_form):
    def changed(x, strike):
        exact, scales = closed_form(x, strike)
        return {**exact, "vega": exact["vega"] * (1 + 1e-12)}, scales

    return changed


def with_larger_velocities(observe):
    t, v, error = observe()
    return lambda: (t, v * 1.05, error)


def with_uniform_start(_):
    return lambda tube: np.repeat([tube.A, tube.B / tube.A], tube.n)


def with_inexact_jacobian(newton_steps):
    return lambda u, jacobian: newton_steps(u, lambda *args: (1 + 1e-3) * jacobian(*args))


#: application, its arguments, changes of attributes in `applications`, and the claims that fail then
MUTATIONS = [
    ("black_scholes_greeks", (100,), {"greeks_in_closed_form": with_other_vega}, ["vega"]),
    ("bratu_newton", (12, 15), {"bratu_jacobian_by_hand": scaled(1 + 1e-14), "FOLD": lambda known: known * 1.001,
                                "newton_steps": with_inexact_jacobian},
     ["Jacobian, relative error", "2 - order of convergence", "fold, error of extrapolated parameter"]),
    ("brusselator_loops", (), {"Tube.jacobian_by_hand": scaled(1 + 1e-14), "Tube.start": with_uniform_start},
     ["Jacobian, relative error", "1 / amplitude"]),
    ("brusselator_sparse", (4,), {"square_jacobian_by_hand": scaled(1 + 1e-14)}, ["Jacobian, relative error"]),
    ("bryson_denham", (6,), {"position_in_closed_form": scaled(1.01), "control_hessian_by_hand": scaled(1 + 1e-6)},
     ["Hessian", "position"]),
    ("bundle_adjustment", (), {"Scene.growth": lambda _: lambda scene, z: z, "GAUGE": lambda _: 200},
     ["J @ (growth of the scene), relative", "chi squared, deviation / sigma"]),
    ("kepler_orbit", (), {"orbit_jacobian_by_hand": scaled(1 + 1e-9), "observe": with_larger_velocities},
     ["Jacobian, relative error by columns", "elements, error / standard deviation"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "changes", "claims"), MUTATIONS, ids=[row[0] for row in MUTATIONS])
def test_claims_fail_on_another_model_or_reference(name, args, changes, claims, monkeypatch):
    for path, change in changes.items():
        monkeypatch.setattr(f"applications.{path}", change(attrgetter(path)(app)))
    assert {*claims} <= {*failing(CLAIMS[name](*args))}
