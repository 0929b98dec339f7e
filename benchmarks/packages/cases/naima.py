"""Radiation of relativistic particles; uses Astropy's units."""

import naima
import numpy as np
from astropy import units as u

from benchmarks.packages.cases import Cases

PACKAGE = "naima"
cases = Cases()
ENERGIES = np.array([0.5, 2.0, 10.0])


@cases([2.1, 1e30])
def power_law(p):
    return naima.models.PowerLaw(p[1] / u.eV, 1 * u.TeV, p[0])(ENERGIES * u.TeV).value


@cases([2.1, 13.0, 1.2])
def cut_off(p):
    model = naima.models.ExponentialCutoffPowerLaw(1e30 / u.eV, 1 * u.TeV, p[0], p[1] * u.TeV, p[2])
    return model(ENERGIES * u.TeV).value / 1e30


@cases([2.1, 0.1])
def log_parabola(p):
    return naima.models.LogParabola(1e30 / u.eV, 1 * u.TeV, p[0], p[1])(ENERGIES * u.TeV).value / 1e30


@cases([2.1, 100.0], step=1e-3)
def synchrotron(p):
    electrons = naima.models.PowerLaw(1e36 / u.eV, 1 * u.TeV, p[0])
    flux = naima.models.Synchrotron(electrons, B=p[1] * u.uG).flux(ENERGIES * u.keV, distance=1 * u.kpc)
    return flux.value


@cases(2.1, step=1e-3)
def inverse_compton(index):
    electrons = naima.models.PowerLaw(1e36 / u.eV, 1 * u.TeV, index)
    flux = naima.models.InverseCompton(electrons, seed_photon_fields=["CMB"]).flux(ENERGIES * u.TeV, distance=0)
    return np.log(flux.value)
