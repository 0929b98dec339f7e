"""Physical chemistry: properties of water, equilibria and rate constants."""

import numpy as np
from chempy import Substance
from chempy.arrhenius import ArrheniusParam
from chempy.electrochemistry.nernst import nernst_potential
from chempy.electrolytes import davies_log_gamma, ionic_strength
from chempy.eyring import EyringParam
from chempy.henry import Henry
from chempy.properties.sulfuric_acid_density_myhre_1998 import sulfuric_acid_density
from chempy.properties.water_density_tanaka_2001 import water_density
from chempy.properties.water_permittivity_bradley_pitzer_1979 import water_permittivity
from chempy.properties.water_viscosity_korson_1969 import water_viscosity

from benchmarks.packages.cases import Cases

PACKAGE = "chempy"
cases = Cases()


@cases(290.0)
def density_of_water(temperature):
    return water_density(temperature)


@cases([298.0, 2e5])
def permittivity_of_water(x):
    return water_permittivity(x[0], x[1])


@cases(300.0)
def viscosity_of_water(temperature):
    return water_viscosity(temperature)


@cases([0.3, 290.0])
def density_of_sulfuric_acid(x):
    return sulfuric_acid_density(x[0], x[1])


@cases([1e10, 5e4, 300.0])
def arrhenius_rate(x):
    return ArrheniusParam(x[0], x[1])(x[2])


@cases([6e4, 10.0, 300.0])
def eyring_rate(x):
    return EyringParam(dH=x[0], dS=x[1])(x[2])


@cases([1.3e-3, 1500.0, 310.0])
def henry_constant(x):
    return Henry(x[0], x[1])(x[2])


@cases([145.0, 15.0, 310.0])
def membrane_potential(x):
    return nernst_potential(x[0], x[1], 1, x[2])


@cases([0.05, 0.02])
def activity_coefficients(molality):
    strength = ionic_strength({"Na+": molality[0], "SO4-2": molality[1]}, warn=False)
    return np.array([davies_log_gamma(strength, 1, 0.5), davies_log_gamma(strength, -2, 0.5)])


@cases([2.0, 0.5])
def mass_of_mixture(amounts):
    substances = [Substance.from_formula("H2SO4"), Substance.from_formula("NaCl")]
    return sum(n * substance.mass for n, substance in zip(amounts, substances))
