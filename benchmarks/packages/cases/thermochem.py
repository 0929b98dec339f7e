"""Thermochemical tables and steam."""

import numpy as np
from thermochem import burcat, iapws

from benchmarks.packages.cases import Cases

PACKAGE = "thermochem"
cases = Cases()

DATABASE = burcat.Elementdb()
OXYGEN = DATABASE.getelementdata("O2 REF ELEMENT")
AIR = DATABASE.getmixturedata([("O2 REF ELEMENT", 0.21), ("N2  REF ELEMENT", 0.79)])


@cases(700.0)
def heat_capacity(temperature):
    return np.stack([OXYGEN.cpo(temperature), OXYGEN.ho(temperature), OXYGEN.so(temperature)])


@cases(700.0)
def mixture(temperature):
    return AIR.ho(temperature)


@cases([1e5, 400.0])
def density_of_gas(x):
    return OXYGEN.density(x[0], x[1])


@cases([3e6, 400.0])
def enthalpy_of_water(x):
    return iapws.Water().h(x[0], x[1])


@cases(400.0)
def saturation_pressure(temperature):
    return iapws.Water().psat(temperature)
