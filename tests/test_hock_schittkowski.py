"""Sensitivities of the problems of Hock and Schittkowski, against differences of solved problems."""

import numpy as np
import pytest
from tests.hock_schittkowski import PROBLEMS

import wengert as wg
from wengert.scipy import optimize


def stacked(value):
    return np.stack(value) if isinstance(value, list) else value


def solved(number, p):
    """Return solution and value of a problem whose objective is tilted by p[0], and constraints are shifted by p[1]."""
    f, eq, ineq, bounds, x0, _ = PROBLEMS[number]
    n = len(x0)
    tilt = 0.1 * np.cos(np.arange(n))
    constraints = [
        {"type": kind, "fun": lambda x, c=c: stacked(c(x)) + p[1] * 0.1 * np.cos(1 + np.arange(len(c(x))))}
        for kind, c in (("eq", eq), ("ineq", ineq))
        if c is not None
    ]
    return optimize.minimize(
        lambda x: f(x) + p[0] * (tilt @ x),
        np.array(x0, dtype=float),
        bounds=bounds,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )


#: steps of differences where SLSQP stops early
STEPS = {36: 5e-2, 37: 5e-2}


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")
@pytest.mark.parametrize("number", PROBLEMS)
def test_sensitivities_equal_differences_of_solved_problems(number):
    value, p, step = PROBLEMS[number].value, np.zeros(2), STEPS.get(number, 1e-3)
    found = solved(number, p)
    assert found.fun == pytest.approx(value, rel=1e-6, abs=1e-8)
    J, slope = wg.jacobian(lambda p: (lambda r: (r.x, r.fun))(solved(number, p)))(p)
    for i in range(2):
        ahead, behind = (solved(number, p + s * np.eye(2)[i]) for s in (step, -step))
        scale = np.max(np.abs(found.x))
        assert np.allclose(J[:, i], (ahead.x - behind.x) / (2 * step), rtol=1e-2, atol=2e-3 * scale), number
        assert slope[i] == pytest.approx((ahead.fun - behind.fun) / (2 * step), rel=1e-3, abs=1e-4 * max(1, abs(value)))
