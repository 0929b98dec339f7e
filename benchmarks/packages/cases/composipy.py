"""Laminates of composite materials."""

import numpy as np
from composipy import LaminateProperty, LaminateStrength, OrthotropicMaterial

from benchmarks.packages.cases import Cases

PACKAGE = "composipy"
cases = Cases()


@cases([129e3, 9.4e3, 0.3, 5.1e3])
def stiffness(x):
    ply = OrthotropicMaterial(x[0], x[1], x[2], x[3], 0.2)
    return LaminateProperty([45, 0, 90, -45], ply).ABD


@cases([30.0, 60.0])
def stiffness_of_angles(angles):
    ply = OrthotropicMaterial(129e3, 9.4e3, 0.3, 5.1e3, 0.2)
    return LaminateProperty([angles[0], -angles[0], angles[1], 0.0], ply).A


@cases([100.0, 20.0])
def strains(loads):
    ply = OrthotropicMaterial(129e3, 9.4e3, 0.3, 5.1e3, 0.2, 1500.0, 900.0, 50.0, 200.0, 70.0)
    laminate = LaminateProperty([45, 0, 90, -45], ply)
    return np.asarray(LaminateStrength(laminate, Nxx=loads[0], Nyy=loads[1]).epsilon0())
