"""Orbits."""

from datetime import timedelta

import numpy as np
from beyond.constants import Earth
from beyond.dates import Date
from beyond.orbits import Orbit
from beyond.utils.interplanetary import flyby
from beyond.utils.lambert import _lambert
from beyond.utils.leo import sso
from beyond.utils.matrix import rot1, rot3

from benchmarks.packages.cases import Cases

PACKAGE = "beyond"
cases = Cases()

EPOCH = Date(2026, 1, 1)


@cases([7.0e6, 0.01, 0.9, 0.3, 0.4, 0.5])
def cartesian_of_elements(x):
    return np.asarray(Orbit(x, EPOCH, "keplerian", "EME2000", "Kepler").copy(form="cartesian").base)


@cases([7.0e6, 0.01, 0.9, 0.3, 0.4, 0.5])
def true_of_mean_anomaly(x):
    return Orbit(x, EPOCH, "keplerian_mean", "EME2000", "Kepler").copy(form="keplerian").nu


@cases([0.3, 0.5])
def rotations(x):
    return rot1(x[0]) @ rot3(x[1])


@cases(7.2e6)
def inclination_of_sun_synchronous_orbit(a):
    return sso(a=a, e=0.001)


@cases([7.0e6, 1.0e5, 2.0e5])
def velocity_by_lambert(r):
    return _lambert(r, np.array([1.0e5, 8.0e6, 3.0e5]), timedelta(seconds=2000), Earth.mu)[0]


@cases([3.0e3, 1.0e3, 2.0e2])
def flyby_angle(v):
    return np.stack(flyby(v, np.array([2.0e3, 2.4e3, 1.0e2]), Earth.mu)[:1])
