"""Scattering of light by spheres."""

import numpy as np
import PyMieScatt

from benchmarks.packages.cases import Cases

PACKAGE = "PyMieScatt"
cases = Cases()


@cases([1.5, 500.0, 300.0])
def efficiencies(x):
    return np.array(PyMieScatt.MieQ(x[0] + 0.1j, x[1], x[2]))


@cases([500.0, 20.0])
def rayleigh(x):
    return np.array(PyMieScatt.RayleighMieQ(1.5 + 0.1j, x[0], x[1]))


@cases([1.3, 1.2])
def coated_sphere(x):
    return np.array(PyMieScatt.MieQCoreShell(x[0] + 0.01j, x[1] + 0j, 500.0, 200.0, 300.0))


@cases([1.5, 2.0])
def amplitudes(x):
    s1, s2 = PyMieScatt.MieS1S2(x[0] + 0.1j, x[1], 0.3)
    return np.array([abs(s1), abs(s2)])
