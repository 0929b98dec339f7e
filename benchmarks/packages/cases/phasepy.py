"""Thermodynamics of mixtures: activity models and cubic equations of state."""

import numpy as np
from phasepy import component, mixture, preos, prsveos
from phasepy.actmodels import nrtl, wilson

from benchmarks.packages.cases import Cases

PACKAGE = "phasepy"
cases = Cases()

WATER = component(
    name="water", Tc=647.13, Pc=220.55, Zc=0.229, Vc=55.948, w=0.344861, Ant=[11.64785144, 3797.41566067, -46.77830444]
)
ETHANOL = component(
    name="ethanol", Tc=514.0, Pc=61.37, Zc=0.241, Vc=168.0, w=0.643558, Ant=[11.61809279, 3423.0259436, -56.48094263]
)
MIXTURE = mixture(ETHANOL, WATER)
MIXTURE.NRTL(np.array([[0.0, 0.2], [0.2, 0.0]]), np.array([[0.0, 1.0e2], [5.0e2, 0.0]]))
PENG_ROBINSON = preos(WATER)


@cases([0.3, 340.0])
def nrtl_coefficients(x):
    alpha = np.array([[0.0, 0.2], [0.2, 0.0]])
    g = np.array([[0.0, 1.0e2], [5.0e2, 0.0]])
    return nrtl(np.stack([x[0], 1.0 - x[0]]), x[1], alpha, g, np.zeros((2, 2)))


@cases([0.3, 340.0])
def wilson_coefficients(x):
    energies = np.array([[0.0, 1.0e2], [5.0e2, 0.0]])
    return wilson(np.stack([x[0], 1.0 - x[0]]), x[1], energies, lambda temperature: np.array([60.0, 18.0]))


@cases([400.0, 60.0])
def pressure_of_water(x):
    return PENG_ROBINSON.pressure(x[0], 18.0 + x[1])


@cases([400.0, 1.0])
def fugacity_of_vapour(x):
    return PENG_ROBINSON.logfug(x[0], x[1], "V")[0]


@cases(400.0)
def saturation_pressure(temperature):
    return PENG_ROBINSON.psat(temperature)[0]


@cases(340.0)
def enthalpy_of_vapour(temperature):
    return prsveos(WATER).EnthalpyR(temperature, 1.0, "V")
