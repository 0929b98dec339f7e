"""Coordinates of the solar system."""

import numpy as np
from solarsystem import functions

from benchmarks.packages.cases import Cases

PACKAGE = "solarsystem"
cases = Cases()


@cases([40.0, 20.0, 1.5])
def rectangular(x):
    return np.array(functions.spherical2rectangular(*x))


@cases([0.4, 0.8, 0.3])
def spherical(x):
    return np.array(functions.rectangular2spherical(*x))


@cases([100.0, 0.0167])
def planet(x):
    return np.array(functions.Planet_Sun(x[0], x[1], 1.0, 0.0, 282.9, 0.1))


@cases([120.0, 5.0, 23.4])
def equatorial(x):
    return np.array(functions.spherical_ecliptic2equatorial(x[0], x[1], 1.0, x[2]))
