"""L-moments and distributions fitted to them."""

import lmoments3
import numpy as np
from lmoments3 import distr

from benchmarks.packages.cases import Cases

PACKAGE = "lmoments3"
cases = Cases()
FLOWS = [12.0, 30.5, 8.2, 17.9, 22.1, 41.0, 15.5, 19.3]


@cases(FLOWS)
def ratios(x):
    return np.array(lmoments3.lmom_ratios(x, nmom=4))


@cases(FLOWS)
def generalised_extreme_values(x):
    return np.array([*distr.gev.lmom_fit(x).values()])


@cases(FLOWS)
def gumbel(x):
    return np.array([*distr.gum.lmom_fit(x).values()])


@cases(FLOWS)
def pearson(x):
    return np.array([*distr.pe3.lmom_fit(x).values()])
