"""`explain` reports what is executed: the tests count runs of f and sweeps."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import wengert as wg
from wengert.transforms import costs, dense, operators, products


class Counted:
    """Scaled sines of m selected elements of n; counts its calls."""

    def __init__(self, n, m):
        self.picked = np.arange(m) % n
        self.scale = np.linspace(1, 2, m)
        self.runs = 0

    def __call__(self, x):
        self.runs += 1
        return np.take(np.sin(x), self.picked) * self.scale

    def jacobian(self, x):
        J = np.zeros((len(self.picked), len(x)))
        J[np.arange(len(J)), self.picked] = np.cos(x)[self.picked] * self.scale
        return J


@pytest.fixture
def sweeps(monkeypatch):
    """Collect the number of directions of each sweep."""
    made = []

    def counting(recorder, inputs, outputs, cotangents, k, *rest):
        made.append(k)
        return pull_back(recorder, inputs, outputs, cotangents, k, *rest)

    def counting_quick(*args):
        found = quick(*args)
        if isinstance(found, np.ndarray):  # one sweep was made
            made.append(found.shape[0] if found.ndim > 1 else 1)
        return found

    pull_back, quick = products.pull_back, operators.quick
    monkeypatch.setattr(products, "pull_back", counting)
    monkeypatch.setattr(dense, "pull_back", counting)
    monkeypatch.setattr(operators, "quick", counting_quick)
    return made


# n, m, requested mode, mode, runs, sweeps, width; then the same for the second call
PASSES = [
    (1, 1000, "auto", ("forward", 1, 0, 1), ("forward", 1, 0, 1)),
    (1000, 1, "auto", ("reverse", 1, 1, 1), ("reverse", 1, 1, 1)),
    (50, 50, "auto", ("reverse", 1, 1, 50), ("reverse", 1, 1, 50)),
    (3, 2, "auto", ("reverse", 1, 1, 2), ("reverse", 1, 1, 2)),
    (7, 14, "auto", ("reverse", 1, 1, 14), ("forward", 1, 0, 7)),
    (30, 1000, "auto", ("forward", 2, 0, 30), ("forward", 1, 0, 30)),
    (1000, 1000, "auto", ("reverse", 1, 12, 87), ("reverse", 1, 12, 87)),
    (1000, 3, "forward", ("forward", 16, 0, 64), ("forward", 16, 0, 64)),
    (1, 30, "reverse", ("reverse", 1, 1, 30), ("reverse", 1, 1, 30)),
]


@pytest.mark.parametrize(("n", "m", "mode", "first", "second"), PASSES)
def test_jacobian_runs_the_sweeps_of_its_plan(n, m, mode, first, second, sweeps):
    f = Counted(n, m)
    x = np.linspace(-1, 1, n)
    J = wg.jacobian(f, mode=mode)
    for expected in (first, second):
        f.runs = 0
        sweeps.clear()
        np.testing.assert_allclose(J(x), f.jacobian(x), rtol=1e-12, atol=1e-13)
        plan = J.plan
        assert (plan.mode, plan.runs, plan.sweeps, plan.width) == expected
        assert (plan.n, plan.m) == (n, m)
        assert f.runs == plan.runs
        assert len(sweeps) == plan.sweeps
        assert sum(sweeps) == (m if plan.mode == "reverse" else 0) and all(k <= plan.width for k in sweeps)
    report = wg.explain(wg.jacobian(f, mode=mode), x)
    assert report.plan[:6] == (first[0], n, m, *first[1:])


@pytest.mark.parametrize(
    ("op", "mode", "width"),
    [
        (wg.grad, "reverse", 1),
        (wg.value_and_grad, "reverse", 1),
        (wg.vjp, "reverse", 1),
        (wg.jvp, "forward", 1),
        (wg.derivative, "forward", 2),
    ],
)
def test_operator_with_a_single_mode_has_a_fixed_plan(op, mode, width, sweeps):
    runs = []

    def f(x):
        runs.append(1)
        return np.sum(x * x) if "grad" in op.__name__ else x * x

    x = np.ones(4)
    plan = wg.explain(op(f), x).plan
    runs.clear()
    sweeps.clear()
    if op is wg.vjp:
        op(f, x)[1](x)
    elif op is wg.jvp:
        op(f, x, x)
    else:
        op(f, x)
    assert (plan.mode, plan.n, plan.width) == (mode, 4, width)
    assert plan.runs == len(runs) == 1
    assert plan.sweeps == len(sweeps)


def test_plain_function_is_explained_as_its_jacobian():
    f = Counted(5, 5)
    report = wg.explain(f, np.ones(5))
    assert report.plan.runs == f.runs == 1
    assert report.inputs == report.outputs == [(5,)]
    assert report.plan == wg.explain(wg.jacobian(f), np.ones(5)).plan


def test_tape_length_and_memory_are_reported():
    def powers(x):
        total = 0.0
        for i in range(10):
            total = total + x[i] * x[i]
        return total

    report = wg.explain(wg.grad(powers), np.arange(10.0))
    assert report.entries == 10 * 3  # a load, a product and a sum for each
    assert 17 * report.entries <= report.nbytes < 30 * report.entries
    arrays = wg.explain(wg.grad(lambda x: np.sum(np.exp(x))), np.ones(1000))
    assert arrays.entries == 2
    assert 8000 <= arrays.nbytes < 8200
    forward = wg.explain(wg.jvp(powers), np.arange(10.0))
    assert forward.entries == forward.nbytes == 0


def test_costs_follow_the_cost_model():
    report = wg.explain(wg.jacobian(Counted(70, 9)), np.ones(70))
    assert report.costs == {
        "forward": costs.forward_cost(70),
        "reverse": costs.COSTS.record + costs.reverse_cost(9),
    }
    assert report.plan.mode == min(report.costs, key=report.costs.get)
    assert wg.explain(wg.grad(np.sum), np.ones(7)).costs["reverse"] == costs.COSTS.record + costs.reverse_cost(1)


def test_reason_mentions_an_additional_recording():
    for n, m, text in ((7, 14, "the next call uses forward mode"), (30, 1000, "f was also recorded, to determine m")):
        J = wg.jacobian(Counted(n, m))
        assert text in wg.explain(J, np.ones(n)).plan.reason
        assert wg.explain(J, np.ones(n)).plan.reason == "lower estimated cost"


def test_report_is_short_and_readable():
    assert repr(wg.explain(wg.grad(np.sum), np.ones((2, 3)))) == (
        "grad(sum): (2, 3) -> (), n = 6, m = 1\n"
        "  mode    reverse: scalar output, so one sweep yields the gradient\n"
        "  passes  1 evaluation of f, recorded; 1 reverse sweep with 1 direction\n"
        "  tape    1 entry, 17 bytes\n"
        f"  cost    forward {costs.forward_cost(6):.3g}, reverse {costs.COSTS.record + costs.reverse_cost(1):.3g} "
        "evaluations of f (estimated)"
    )


def test_explain_of_arguments_and_containers():
    def f(t, p, scale=1.0):
        return {"a": t * p["k"] * scale, "b": p["c"]}

    p = {"k": np.ones(3), "c": 2.0}
    report = wg.explain(wg.jacobian(f, argnums=1), np.ones(3), args=(p,), kwargs={"scale": 2.0})
    assert report.inputs == report.outputs == [(3,), ()]
    assert (report.plan.n, report.plan.m) == (4, 4)


def test_errors_equal_those_of_the_derivative():
    with pytest.raises(TypeError, match="must return a single number"):
        wg.explain(wg.grad(np.sin), np.ones(3))
    with pytest.raises(TypeError, match="expected a function"):
        wg.explain(3.0, np.ones(3))


# ---- solutions of differential equations


def decay(k, method="RK45", **options):
    """Sum of the solution of dy/dt = -k y at five times, for three rates."""
    times = np.linspace(0.2, 1.0, 5)
    return np.sum(
        solve_ivp(lambda t, y: -k * y, (0.0, 1.0), np.ones(3), method, times, rtol=1e-6, atol=1e-8, **options).y
    )


def decay_by_replay(k):
    """The same with a right-hand side that no program can hold, since it takes too many branches."""

    def rate(t, y):
        return -k * y * (1.0 if int(1000 * t) >= 0 else 2.0)

    return np.sum(solve_ivp(rate, (0.0, 1.0), np.ones(3), rtol=1e-6, atol=1e-8).y[:, -1])


# operator, method, options, sensitivity, reason, part of the method's name
SENSITIVITIES = [
    (wg.grad, "RK45", {}, "forward", "up to 4 by an explicit method", "DOP853 at 0.002 times"),
    (wg.grad, "LSODA", {}, "forward", "up to 4 by an explicit method", "DOP853 or Radau"),
    (wg.grad, "Radau", {}, "discrete", "more than 1 by an implicit method", "Radau at 0.03 times"),
    (wg.grad, "RK45", {"sensitivity": "discrete"}, "discrete", "sensitivity='discrete'", "kept"),
    (wg.grad, "BDF", {"sensitivity": "forward"}, "forward", "sensitivity='forward'", "Radau at 0.03 times"),
    (wg.grad, "BDF", {"sensitivity": "adjoint"}, "adjoint", "sensitivity='adjoint'", "BDF"),
    (wg.derivative, "RK45", {}, "forward", "forward mode", "DOP853"),
    (wg.jvp, "RK45", {}, "forward", "forward mode", "DOP853"),
    (wg.vjp, "Radau", {}, "discrete", "more than 1 by an implicit method", "Radau"),
    (wg.hvp, "RK45", {}, "discrete", "a derivative of higher order", "DOP853"),
]


@pytest.mark.parametrize(("op", "method", "options", "sensitivity", "reason", "by"), SENSITIVITIES)
def test_sensitivities_of_integrations_are_reported(op, method, options, sensitivity, reason, by):
    k = np.array([0.5, 1.0, 1.5])
    args = (k, method) if op is wg.hvp else (method,)
    if op is wg.derivative:
        report = wg.explain(op(lambda k, method: decay(k, method, **options)), 0.5, args=args)
    else:
        report = wg.explain(op(decay), k, args=args, kwargs=options)
    found = next(each for each in report.integrations if each.sensitivity == sensitivity)
    assert reason in found.reason and by in str(found.taken) and found.taken.steps > 2
    assert (found.states, found.parameters) == (3, 1 if op is wg.derivative else 3)
    assert f"solves  {found}" in repr(report)
    if op is wg.grad:
        assert wg.explain(wg.compile(op(decay)), k, args=args, kwargs=options).integrations == report.integrations
        program = wg.record(decay, k, args=args, kwargs=options).grad()
        program(k, *args, **options)
        assert program.explain().integrations[-1] == found and str(found) in repr(program.explain())


def test_checkpoints_and_replays_of_integrations_are_reported():
    k = np.linspace(0.5, 1.5, 3)
    options = {"sensitivity": "discrete", "memory": "1kB", "first_step": 1e-3, "max_step": 1e-3}
    (found,) = wg.explain(wg.grad(decay), k, kwargs=options).integrations
    assert found.taken.steps == 1000 and found.taken.stride > 1 and f"one state in {found.taken.stride}" in str(found)
    (found,) = wg.explain(wg.grad(decay_by_replay), k).integrations
    assert found.sensitivity == "replay" and "cannot be recorded" in str(found)


def test_hessian_is_explained():
    report = wg.explain(wg.hessian(lambda x: np.sum(np.sin(x))), np.ones(3))
    assert report.plan[:6] == ("mixed", 3, 1, 1, 1, 3)
    for mode in ("forward", "reverse"):
        assert wg.explain(wg.hessian(decay, mode=mode), np.ones(3)).plan.mode == mode
