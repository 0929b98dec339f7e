"""Paths of stochastic differential equations for given increments of the Wiener process."""

import numpy as np
import sdeint

from benchmarks.packages.cases import Cases

PACKAGE = "sdeint"
cases = Cases()
TIMES = np.linspace(0.0, 1.0, 21)
INCREMENTS = np.random.default_rng(0).normal(0, np.sqrt(TIMES[1]), (20, 2))


def drift_and_noise(p):
    def drift(y, t):
        return np.array([p[0] * y[1], -p[1] * y[0] - 0.3 * y[1]])

    def noise(y, t):
        return np.diag([0.1 * p[2], p[2] * (1 + 0.1 * y[0])])

    return drift, noise


@cases([1.0, 2.0, 0.3])
def euler(p):
    drift, noise = drift_and_noise(p)
    return sdeint.itoEuler(drift, noise, np.array([1.0, 0.0]), TIMES, dW=INCREMENTS)[-1]


@cases([1.0, 2.0, 0.3])
def heun(p):
    drift, noise = drift_and_noise(p)
    return sdeint.stratHeun(drift, noise, np.array([1.0, 0.0]), TIMES, dW=INCREMENTS)[-1]


@cases([1.0, 0.5])
def from_start(y):
    drift, noise = drift_and_noise([1.0, 2.0, 0.3])
    return sdeint.itoEuler(drift, noise, y, TIMES, dW=INCREMENTS)[-1]


@cases([1.0, 2.0, 0.3])
def roessler(p):
    drift, noise = drift_and_noise(p)
    integrals = np.random.default_rng(1).normal(0, 0.03, (20, 2, 2))
    return sdeint.itoSRI2(drift, noise, np.array([1.0, 0.0]), TIMES, dW=INCREMENTS, I=integrals)[-1]


@cases([1.0, 0.2])
def scalar_equation(p):
    def drift(y, t):
        return -p[0] * y

    def noise(y, t):
        return p[1] * y

    return sdeint.itoEuler(drift, noise, 1.0, TIMES, dW=INCREMENTS[:, :1])[-1, 0]
