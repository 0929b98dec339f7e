"""Measures of nonlinear time series."""

import nolds
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "nolds"
cases = Cases()
SERIES = np.cumsum(np.random.default_rng(0).normal(size=60))


@cases(SERIES)
def hurst_exponent(x):
    return nolds.hurst_rs(x, fit="poly", nvals=[10, 20, 30])


@cases(SERIES)
def detrended_fluctuations(x):
    return nolds.dfa(x, nvals=[4, 8, 16], fit_exp="poly")
