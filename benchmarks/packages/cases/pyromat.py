"""Thermodynamic properties of gases and steam."""

import numpy as np
import pyromat

from benchmarks.packages.cases import Cases

PACKAGE = "PYroMat"
cases = Cases()
N2 = pyromat.get("ig.N2")
AIR = pyromat.get("ig.air")
STEAM = pyromat.get("mp.H2O")


@cases([450.0])
def enthalpy_of_nitrogen(x):
    return N2.h(T=x)


@cases([400.0, 3.0])
def entropy_of_air(x):
    return AIR.s(T=x[0], p=x[1])[0]


@cases([500.0])
def heat_capacity_and_sound_speed(x):
    return np.concatenate([AIR.cp(T=x), AIR.gam(T=x)])


@cases([600.0, 5.0])
def enthalpy_of_steam(x):
    return STEAM.h(T=x[0], p=x[1])[0]
