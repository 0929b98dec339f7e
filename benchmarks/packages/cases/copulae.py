"""Copulas of several variables, whose methods are decorated by `wrapt`."""

import numpy as np
from copulae import ClaytonCopula, FrankCopula, GaussianCopula, GumbelCopula, StudentCopula

from benchmarks.packages.cases import Cases

PACKAGE = "copulae"
cases = Cases()
POINTS = np.array([[0.3, 0.6], [0.5, 0.2], [0.8, 0.9]])


@cases(1.5)
def clayton(x):
    return np.sum(ClaytonCopula(x).pdf(POINTS, log=True))


@cases(POINTS)
def clayton_at_points(x):
    return ClaytonCopula(2.0).pdf(x)


@cases(3.0)
def frank(x):
    return np.sum(FrankCopula(x).pdf(POINTS, log=True))


@cases(1.5)
def gumbel(x):
    return np.sum(GumbelCopula(x).pdf(POINTS, log=True))


@cases(0.4)
def gaussian(x):
    copula = GaussianCopula(2)
    copula.params = x
    return np.sum(copula.pdf(POINTS, log=True))


@cases(0.4)
def student(x):
    copula = StudentCopula(2)
    copula.params = (4.0, x)
    return np.sum(copula.pdf(POINTS, log=True))


@cases(POINTS)
def distribution_function(x):
    return ClaytonCopula(2.0).cdf(x)
