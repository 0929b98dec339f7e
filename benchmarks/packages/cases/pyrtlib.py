"""Microwave radiation in the atmosphere."""

import numpy as np
from pyrtlib import utils
from pyrtlib.rt_equation import RTEquation

from benchmarks.packages.cases import Cases

PACKAGE = "pyrtlib"
cases = Cases()


@cases([280.0, 260.0])
def saturation(t):
    return np.concatenate([utils.eswat_goffgratch(t), utils.esice_goffgratch(t), utils.satmix(1000.0, t)])


@cases([285.0, 0.7])
def vapour(x):
    return np.array(RTEquation.vapor(np.array([x[0], 270.0]), np.array([x[1], 0.5]), False))


@cases([1000.0, 280.0, 8.0])
def refractivity(x):
    return np.array(RTEquation.refractivity(np.array([x[0]]), np.array([x[1]]), np.array([x[2]])))


@cases([22.2, 280.0])
def dielectric_of_water(x):
    found = utils.dilec12(x[0], x[1])
    return np.array([found.real, found.imag])


@cases([0.0, 1.0, 2.5])
def heights(z):
    return RTEquation.ray_tracing(z, np.array([1.0003, 1.0002, 1.0001]), 30.0, 0.0)
