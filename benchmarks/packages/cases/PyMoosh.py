"""Multilayers by scattering matrices."""

import numpy as np
import PyMoosh

from benchmarks.packages.cases import Cases

PACKAGE = "PyMoosh"
cases = Cases()


@cases([150.0, 80.0, 600.0])
def coefficients(x):
    stack = PyMoosh.Structure([1.0, 2.25, 4.0], [0, 1, 2, 1, 0], [0, x[0], x[1], x[0], 0], verbose=False)
    r, t, power_r, power_t = PyMoosh.coefficient_S(stack, x[2], 0.3, 0)
    return np.array([np.real(r), np.imag(t), power_r, power_t])


@cases([2.25, 4.0])
def reflectance_of_permittivities(x):
    stack = PyMoosh.Structure([1.0, x[0], x[1]], [0, 1, 2, 0], [0, 150.0, 90.0, 0], verbose=False)
    return PyMoosh.coefficient_S(stack, 550.0, 0.2, 1)[2]
