"""Uncertainty of measurements."""

import metrolopy
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "metrolopy"
cases = Cases()


@cases([9.81, 0.02])
def uncertainty_of_quotient(x):
    g = metrolopy.ummy(x[0], u=x[1]) / metrolopy.ummy(2.0, u=0.1)
    return np.array([g.x, g.u])


@cases([0.5, 0.02])
def uncertainty_of_sine(x):
    y = np.sin(metrolopy.ummy(x[0], u=x[1]))
    return np.array([y.x, y.u])
