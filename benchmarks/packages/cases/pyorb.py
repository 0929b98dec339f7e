"""Keplerian orbits."""

import numpy as np
import pyorb

from benchmarks.packages.cases import Cases

PACKAGE = "pyorb"
cases = Cases()


MU = 3.986004418e14


@cases([8e6, 0.1, 0.5, 0.3, 0.7, 1.1])
def state_of_elements(x):
    return pyorb.kep_to_cart(x, mu=MU)


@cases([7e6, 1e5, 2e5, 1e2, 7e3, 2.5e3])
def elements_of_state(x):
    return pyorb.cart_to_kep(x, mu=MU)


@cases([0.3, 1.2], rtol=1e-5)
def true_anomaly(x):
    return pyorb.mean_to_true(x[1], x[0])


@cases([0.3, 1.2])
def mean_anomaly(x):
    return pyorb.true_to_mean(x[1], x[0])


@cases([8e6, 0.1, 0.5, 0.3, 0.7, 1.1])
def position_of_orbit(x):
    orbit = pyorb.Orbit(M0=5.97219e24, a=x[0], e=x[1], i=x[2], omega=x[3], Omega=x[4], anom=x[5])
    return orbit.r[:, 0]


@cases([8e6, 0.1])
def period_and_speed(x):
    return np.stack([pyorb.orbital_period(x[0], MU), pyorb.orbital_speed(7.5e6, x[0], MU)])
