"""Scores of probabilistic forecasts, in NumPy."""

import numpy as np
import properscoring

from benchmarks.packages.cases import Cases

PACKAGE = "properscoring"
cases = Cases()


@cases([0.3, 0.1, 1.2])
def gaussian(x):
    return properscoring.crps_gaussian(*x)


@cases(np.array([0.3, -0.1, 0.7, 1.2]))
def ensemble(x):
    return properscoring.crps_ensemble(0.4, x)


@cases([0.3, 0.6])
def brier(x):
    return properscoring.brier_score(np.array([1.0, 0.0]), x)
