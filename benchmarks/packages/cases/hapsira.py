"""Astrodynamics; compiled by Numba."""

import numpy as np
from hapsira.core.angles import E_to_nu, M_to_E, nu_to_E
from hapsira.core.elements import coe2rv, rv2coe
from hapsira.core.propagation import farnocchia

from benchmarks.packages.cases import Cases

PACKAGE = "hapsira"
cases = Cases()


@cases([11067.79, 0.17, 1.53, 3.97, 0.35, 0.49])
def elements_to_state(x):
    return coe2rv(398600.0, x[0], x[1], x[2], x[3], x[4], x[5])


@cases([-6045.0, -3490.0, 2500.0, -3.457, 6.618, 2.533])
def state_to_elements(x):
    return rv2coe(398600.0, x[:3], x[3:])


@cases([1.2, 0.3])
def kepler_equation(x):
    return M_to_E(x[0], x[1])


@cases([1.2, 0.3])
def eccentric_anomaly(x):
    return nu_to_E(E_to_nu(x[0], x[1]), x[1])


@cases(600.0)
def propagate(seconds):
    r, v = np.array([-6045.0, -3490.0, 2500.0]), np.array([-3.457, 6.618, 2.533])
    return farnocchia(398600.0, r, v, seconds)[0]
