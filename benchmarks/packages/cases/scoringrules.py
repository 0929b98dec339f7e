"""Scores of probabilistic forecasts."""

import numpy as np
import scoringrules as sr

from benchmarks.packages.cases import Cases

PACKAGE = "scoringrules"
cases = Cases()


@cases([0.3, 0.1, 1.2])
def normal(x):
    return sr.crps_normal(*x)


@cases([0.3, 1.1, 2.0])
def gamma(x):
    return sr.crps_gamma(x[0], x[1], x[2])


@cases([0.3, 1.4, 2.1])
def beta(x):
    return sr.crps_beta(x[0], x[1], x[2])


@cases([0.3, 0.1, 1.2])
def logarithmic(x):
    return sr.logs_normal(*x)


@cases(np.array([0.3, -0.1, 0.7, 1.2]))
def ensemble(x):
    return sr.crps_ensemble(0.4, x)
