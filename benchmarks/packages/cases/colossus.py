"""Cosmology and dark matter haloes."""

import numpy as np
from colossus.cosmology import cosmology
from colossus.halo import mass_so, profile_nfw
from colossus.lss import bias, peaks

from benchmarks.packages.cases import Cases

PACKAGE = "colossus"
cases = Cases()
PLANCK = cosmology.setCosmology("planck18", persistence="")


@cases([0.5, 1.2])
def hubble_rate(z):
    return PLANCK.Hz(z)


@cases(0.7)
def densities(z):
    return np.array([PLANCK.rho_c(z), PLANCK.rho_m(z), PLANCK.Om(z)])


@cases([0.8, 2.0])
def bias_of_haloes(nu):
    return np.concatenate([bias.modelTinker10(nu, 0.3, "200m"), bias.modelSheth01(nu)])


@cases([1e12, 8.0])
def density_of_profile(x):
    halo = profile_nfw.NFWProfile(M=x[0], c=x[1], z=0.2, mdef="200c")
    return halo.density(np.array([30.0, 200.0]))


@cases([1e12, 1e14])
def radius_of_mass(m):
    return mass_so.M_to_R(m, 0.4, "200c") + peaks.lagrangianR(m)
