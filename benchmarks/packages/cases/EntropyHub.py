"""Entropies of time series."""

import EntropyHub
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "EntropyHub"
cases = Cases()
SERIES = np.sin(np.arange(14.0) ** 1.3) + 0.1 * np.cos(7.0 * np.arange(14.0))
OTHER = np.cos(np.arange(14.0) ** 1.2)


@cases(SERIES)
def fuzzy(x):
    return EntropyHub.FuzzEn(x, m=2)[0][1:]


@cases(SERIES)
def fuzzy_gaussian(x):
    return EntropyHub.FuzzEn(x, m=2, r=0.7, Fx="gaussian")[0][1:]


@cases(SERIES)
def spectral(x):
    return np.array(EntropyHub.SpecEn(x, N=20))


@cases(SERIES)
def cross_fuzzy(x):
    return EntropyHub.XFuzzEn(x, OTHER, m=2)[0][1:]


@cases(SERIES)
def phase(x):
    return EntropyHub.PhasEn(x, K=3)


@cases(SERIES)
def permutation_with_weights(x):
    return EntropyHub.PermEn(x, m=3, Typex="weighted")[0][1:]
