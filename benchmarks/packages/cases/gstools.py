"""Geostatistics."""

import gstools
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "gstools"
cases = Cases()
R = np.array([0.1, 0.6, 1.5])


@cases([1.3, 2.0, 0.1])
def gaussian_variogram(x):
    return gstools.Gaussian(dim=2, var=x[0], len_scale=x[1], nugget=x[2]).variogram(R)


@cases([1.3, 2.0])
def exponential_covariance(x):
    return gstools.Exponential(dim=3, var=x[0], len_scale=x[1]).covariance(R)


@cases([1.3, 2.0, 1.4])
def stable_correlation(x):
    return gstools.Stable(dim=1, var=x[0], len_scale=x[1], alpha=x[2]).correlation(R)


@cases([0.3, 0.8, 1.7])
def matern_of_distances(r):
    return gstools.Matern(dim=2, var=1.5, len_scale=2.0, nu=1.5).variogram(r)


@cases([0.3, 0.8, 1.7])
def spectrum(k):
    return gstools.Gaussian(dim=2, var=1.5, len_scale=2.0).spectrum(k)


@cases([0.5, 1.2, 0.3, -0.4])
def ordinary_kriging(values):
    model = gstools.Gaussian(dim=1, var=0.5, len_scale=2.0)
    krige = gstools.krige.Ordinary(model, np.array([0.3, 1.9, 3.3, 4.7]), values)
    return krige(np.array([0.9, 2.5, 4.0]))[0]
