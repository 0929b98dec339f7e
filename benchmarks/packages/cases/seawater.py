"""Seawater by EOS-80, in NumPy."""

import numpy as np
import seawater

from benchmarks.packages.cases import Cases

PACKAGE = "seawater"
cases = Cases()


@cases([35.0, 15.0, 1000.0])
def density(x):
    return seawater.dens(x[0], x[1], x[2])


@cases([35.0, 15.0, 1000.0])
def speed_of_sound(x):
    return seawater.svel(x[0], x[1], x[2])


@cases([35.0, 15.0, 1000.0])
def potential_temperature(x):
    return seawater.ptmp(x[0], x[1], x[2])


@cases([35.0, 15.0, 1000.0])
def heat_capacity(x):
    return seawater.cp(x[0], x[1], x[2])


@cases([30.0, 30.5, 10.0, 11.0])
def distance(x):
    return seawater.dist(x[:2], x[2:])[0]


@cases([34.0, 34.5, 35.0, 15.0, 10.0, 5.0])
def dynamic_height(x):
    return seawater.gpan(x[:3, None], x[3:, None], np.array([[0.0], [100.0], [200.0]]))
