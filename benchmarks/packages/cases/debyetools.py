"""Equations of state of solids."""

import numpy as np
from debyetools import potentials

from benchmarks.packages.cases import Cases

PACKAGE = "debyetools"
cases = Cases()
PARAMETERS = np.array([-3.6e5, 1e-5, 7.6e10, 4.7])


def of_state(name):
    def f(x):
        equation = getattr(potentials, name)()
        equation.fitEOS([1e-5], 0, initial_parameters=x * PARAMETERS, fit=False)
        return np.array([equation.E0(1.02e-5) / 1e5, equation.dE0dV_T(1.02e-5) / 1e10])

    f.__name__ = name
    return f


for name in ("BM", "RV", "MU", "BM3", "PT"):
    cases([1.0, 1.0, 1.0, 1.0])(of_state(name))
