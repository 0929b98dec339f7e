"""Scattering lengths and formulas."""

import numpy as np
import periodictable
from periodictable import cromermann, formula, nsf, xsf

from benchmarks.packages.cases import Cases

PACKAGE = "periodictable"
cases = Cases()


@cases(81.8)
def wavelength_of_neutrons(energy):
    return nsf.neutron_wavelength(energy)


@cases(8.04)
def wavelength_of_x_rays(energy):
    return xsf.xray_wavelength(energy)


@cases(2.3)
def scattering_length_density(density):
    return np.stack(periodictable.neutron_sld("SiO2", density=density, wavelength=4.75))


@cases([0.5, 1.2])
def form_factor(q):
    return cromermann.fxrayatq("Si", q)


@cases([2.3, 8.0])
def x_ray_density(x):
    return np.stack(periodictable.xray_sld("SiO2", density=x[0], energy=x[1]))


@cases([2.0, 3.0])
def mass_of_mixture(amounts):
    water, salt = formula("H2O"), formula("NaCl")
    return amounts[0] * water.mass + amounts[1] * salt.mass
