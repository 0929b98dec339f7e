"""Distributions of survival times."""

import numpy as np
import surpyval

from benchmarks.packages.cases import Cases

PACKAGE = "surpyval"
cases = Cases()
TIMES = np.array([1.0, 2.0, 3.0])


@cases([2.0, 1.5])
def weibull(x):
    return surpyval.Weibull.sf(TIMES, x[0], x[1])


@cases([2.0, 1.5])
def gamma_likelihood(x):
    return np.sum(np.log(surpyval.Gamma.df(TIMES, x[0], x[1])))


@cases([0.5, 1.2])
def lognormal(x):
    return surpyval.LogNormal.hf(TIMES, x[0], x[1])
