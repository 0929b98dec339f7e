"""Magnetic field of the Earth by Tsyganenko's models."""

import numpy as np
from geopack import t89, t96

from benchmarks.packages.cases import Cases

PACKAGE = "geopack"
cases = Cases()


@cases([-5.1, 0.3, 2.8])
def field_of_1989(x):
    return np.array(t89.t89(2, -0.533, *x))


@cases([-5.1, 0.3, 2.8])
def field_of_1996(x):
    return np.array(t96.t96([2.0, -87.0, 2.0, -5.0], -0.533, *x))


@cases([2.0, -87.0, 2.0, -5.0])
def parameters_of_1996(x):
    return np.array(t96.t96(x, -0.533, -5.1, 0.3, 2.8))
