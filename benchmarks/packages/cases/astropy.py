"""Astronomy: units, cosmology, models."""

import astropy.units as u
import numpy as np
from astropy.cosmology import FlatLambdaCDM
from astropy.modeling.models import Gaussian1D, Sersic1D
from astropy.timeseries import LombScargle

from benchmarks.packages.cases import Cases

PACKAGE = "astropy"
cases = Cases()
grid = np.linspace(0.5, 1.5, 5)


@cases(1.0)
def kilometres(x):
    return (x * u.km).to(u.m).value


@cases(1.0)
def hubble_rate(z):
    return FlatLambdaCDM(70.0, 0.3).efunc(z)


@cases(1.0)
def comoving_distance(z):
    return FlatLambdaCDM(70.0, 0.3).comoving_distance(z).value


@cases([1.2, 0.9, 0.5])
def gaussian_model(x):
    return Gaussian1D(amplitude=x[0], mean=x[1], stddev=x[2])(grid)


@cases([1.2, 0.9, 0.5])
def gaussian_evaluate(x):
    return Gaussian1D.evaluate(grid, x[0], x[1], x[2])


@cases([1.2, 0.9, 2.5])
def sersic_profile(x):
    return Sersic1D.evaluate(grid, x[0], x[1], x[2])


@cases([1.2, 0.9, 0.5, -0.3, 0.2])
def periodogram(y):
    return LombScargle(np.array([0.0, 0.7, 1.1, 2.3, 3.1]), y).power(np.array([0.3, 0.5]), method="slow")
