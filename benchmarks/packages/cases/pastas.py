"""Time series of ground water."""

import numpy as np
import pastas

from benchmarks.packages.cases import Cases

PACKAGE = "pastas"
cases = Cases()
RAIN = np.array([3.0, 0.0, 8.0, 1.0, 0.0, 0.0, 12.0, 4.0])
DEMAND = np.array([1.0, 2.0, 1.5, 2.5, 3.0, 3.5, 1.0, 0.5])
DAYS = np.arange(1.0, 7.0)


@cases([2.0, 1.3, 20.0])
def impulse_of_gamma(p):
    return pastas.Gamma().impulse(DAYS, p)


@cases([2.0, 1.3, 20.0])
def step_of_gamma(p):
    return pastas.Gamma().step(p, maxtmax=6)


@cases([2.0, 20.0, 0.8])
def step_of_hantush(p):
    return pastas.Hantush().step(p, maxtmax=6)


@cases([2.0, 10.0])
def block_of_exponential(p):
    return pastas.Exponential().block(p, maxtmax=6)


@cases([-0.8])
def linear_recharge(p):
    return pastas.rch.Linear().simulate(RAIN, DEMAND, p)


@cases([50.0, 0.25, 10.0, 2.0, 1.0], step=1e-3)
def flexible_recharge(p):
    model = pastas.rch.FlexModel(interception=False, snow=False)
    return model.simulate(RAIN, DEMAND, RAIN, [p[0], p[1], p[2], p[3], p[4], 0.0])
