"""Measures of inequality."""

import numpy as np
from inequality.atkinson import Atkinson, atkinson
from inequality.gini import Gini
from inequality.theil import Theil, TheilD
from inequality.wolfson import lorenz_curve, wolfson

from benchmarks.packages.cases import Cases

PACKAGE = "inequality"
cases = Cases()
INCOMES = [12.0, 7.0, 30.0, 18.0, 9.5, 22.0]


@cases(INCOMES)
def gini(x):
    return Gini(x).g


@cases(INCOMES)
def theil(x):
    return Theil(x).T


@cases(INCOMES)
def theil_of_regions(x):
    parts = TheilD(x, np.array([0, 0, 1, 1, 2, 2]))
    return np.array([np.sum(parts.bg), np.sum(parts.wg)])


@cases([*INCOMES, 0.5])
def atkinson_index(x):
    return np.array([atkinson(x[:6], x[6]), atkinson(x[:6], 1), Atkinson(x[:6], 0.3).A])


@cases(INCOMES)
def lorenz(x):
    return lorenz_curve(x)[1][1:]


@cases(INCOMES)
def polarisation(x):
    return wolfson(x)
