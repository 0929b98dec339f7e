"""Efficiency of hydrological simulations."""

import hydroeval
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "hydroeval"
cases = Cases()
OBSERVED = np.array([4.7, 6.0, 10.0, 3.1, 2.2])
SIMULATED = [5.3, 5.2, 8.4, 3.5, 2.6]


@cases(SIMULATED)
def nash_sutcliffe(x):
    return hydroeval.evaluator(hydroeval.nse, x, OBSERVED)


@cases(SIMULATED)
def kling_gupta(x):
    return np.ravel(hydroeval.evaluator(hydroeval.kge, x, OBSERVED))


@cases(SIMULATED)
def of_logarithms(x):
    return hydroeval.evaluator(hydroeval.rmse, x, OBSERVED, transform="log")
