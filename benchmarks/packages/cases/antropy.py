"""Entropies and fractal dimensions of time series."""

import antropy
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "antropy"
cases = Cases()
SERIES = np.random.default_rng(0).normal(size=30)


@cases(SERIES)
def spectral_entropy(x):
    return antropy.spectral_entropy(x, 100.0, method="welch", nperseg=16)


@cases(SERIES)
def entropy_of_singular_values(x):
    return antropy.svd_entropy(x, 3, 1)


@cases(SERIES)
def hjorth_parameters(x):
    return np.array(antropy.hjorth_params(x))


@cases(SERIES)
def katz_dimension(x):
    return antropy.katz_fd(x)
