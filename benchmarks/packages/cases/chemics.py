"""Chemical engineering: gases, dimensionless numbers, wood."""

import chemics
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "chemics"
cases = Cases()


@cases([773.0, 101325.0], step=1e-3)
def gas(x):
    nitrogen = chemics.Gas("N2", x[0], x[1])
    return np.array([
        nitrogen.density(), nitrogen.heat_capacity(), nitrogen.viscosity(), nitrogen.thermal_conductivity()
    ])


@cases([773.0, 0.6], step=1e-3)
def viscosity_of_a_mixture(x):
    gases = [chemics.Gas("H2", x[0]), chemics.Gas("N2", x[0])]
    return chemics.GasMixture(gases, [x[1], 1.0 - x[1]]).viscosity()


@cases([0.1, 0.3, 0.6])
def mole_fractions(y):
    return chemics.massfrac_to_molefrac(y / np.sum(y), np.array([2.0, 28.0, 44.0]))


@cases([12.0, 340.0])
def wood(x):
    return np.array([chemics.cp_wood(x[0], x[1]), chemics.k_wood(0.54, x[0], 8.0)])


@cases([2.0, 0.05, 1.2, 1.8e-5])
def numbers(x):
    return np.array([chemics.reynolds(x[0], x[1], rho=x[2], mu=x[3]), chemics.schmidt(x[3], x[2], 2e-5)])


@cases(1500.0)
def pressure_of_the_atmosphere(altitude):
    return chemics.patm(altitude)
