"""Kepler orbits."""

import numpy as np
from apygee import kepler
from apygee.orbit import Orbit

from benchmarks.packages.cases import Cases

PACKAGE = "apygee"
cases = Cases()


@cases([1.5, 0.3, 0.4, 0.5, 0.6, 0.7])
def state(x):
    return kepler.kep_to_cart(x, 4.0)


@cases([1.0, 0.2, 0.3, 0.1, 1.8, 0.3])
def elements(x):
    return kepler.cart_to_kep(x, 4.0)


@cases([1.0, 0.3])
def anomalies(x):
    return np.array([kepler.eccentric_anomaly(x[0], x[1]), kepler.hyperbolic_anomaly(x[0], 1 + x[1])])


@cases([1.5, 0.3, 2.7])
def position_after(x):
    return Orbit([x[0], x[1], 0.3, 0.2, 0.1, 0.5], mu=1.0).at_time(x[2]).r_vec


@cases([1.0, 2.0])
def impulse_of_a_transfer(x):
    inner, outer = Orbit([x[0], 0.01, 0, 0, 0, 0.0], mu=1.0), Orbit([x[1], 0.02, 0, 0, 0, 0.0], mu=1.0)
    return inner.hohmann_transfer(outer).at_theta(0.0).v_vec - inner.at_theta(0.0).v_vec
