"""Position of the sun by the SPA algorithm."""

import numpy as np
import sunposition as sun

from benchmarks.packages.cases import Cases

PACKAGE = "sunposition"
cases = Cases()

TIME = np.datetime64("2020-06-01T17:00:00")


@cases([42.2, -71.4])
def position(x):
    return np.stack(sun.sunposition(TIME, x[0], x[1], 100.0, 10.0, 1010.0, 0.5)[:2])


@cases([10.0, 1010.0])
def refracted_position(x):
    return np.stack(sun.observed_sunposition(TIME, 42.2, -71.4, 100.0, x[0], x[1], 0.5)[:2])


@cases([42.2, -71.4, 100.0])
def compiled_position(x):
    return np.stack(sun.topocentric_sunposition(TIME, x[0], x[1], x[2], jit=True)[2:])


@cases([0.3, 0.4])
def angular_distance(p):
    return sun.arcdist(p, np.array([0.5, 0.1]), radians=True)
