"""Further Runge-Kutta methods for `solve_ivp`."""

import numpy as np
from extensisq import BS5, CK5, SSV2stab, Ts5
from scipy.integrate import solve_ivp

from benchmarks.packages.cases import Cases

PACKAGE = "extensisq"
cases = Cases()


def pendulum(t, y, p):
    return [y[1], -p[0] * np.sin(y[0]) - p[1] * y[1]]


def final_state(method, p):
    solution = solve_ivp(pendulum, (0.0, 2.0), [1.0, 0.0], method=method, args=(p,), rtol=1e-9, atol=1e-10)
    return solution.y[:, -1]


@cases([2.0, 0.3])
def bogacki_shampine(p):
    return final_state(BS5, p)


@cases([2.0, 0.3])
def cash_karp(p):
    return final_state(CK5, p)


@cases([2.0, 0.3])
def tsitouras(p):
    return final_state(Ts5, p)


@cases([2.0, 0.3], rtol=1e-4)
def stabilised(p):
    solution = solve_ivp(pendulum, (0.0, 1.0), [1.0, 0.0], method=SSV2stab, args=(p,), rtol=1e-6, atol=1e-8)
    return solution.y[:, -1]
