"""Geochemistry: log-ratio transforms and lattice strain."""

from pyrolite.comp import codata
from pyrolite.mineral.lattice import strain_coefficient, youngs_modulus_approximation

from benchmarks.packages.cases import Cases

PACKAGE = "pyrolite"
cases = Cases()


@cases([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]])
def centred_log_ratio(X):
    return codata.CLR(X)


@cases([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]])
def additive_log_ratio(X):
    return codata.ALR(X)


@cases([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]])
def isometric_log_ratio(X):
    return codata.ILR(X)


@cases([[0.2, -0.3], [0.1, 0.6]])
def inverse_additive(Y):
    return codata.inverse_ALR(Y)


@cases([1.12, 1.2, 900.0])
def lattice_strain(x):
    return strain_coefficient(x[0], x[1], r0=1.15, E=youngs_modulus_approximation(2, x[0]), T=x[2])


@cases([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]])
def spherical(X):
    return codata.sphere(X)
