"""Adaptive filters."""

import numpy as np
import padasip

from benchmarks.packages.cases import Cases

PACKAGE = "padasip"
cases = Cases()
INPUT = np.sin(np.arange(40.0)).reshape(20, 2) + np.cos(3 * np.arange(40.0)).reshape(20, 2)
DESIRED = INPUT @ [0.7, -0.3]


@cases(0.1)
def error_of_lms(mu):
    return padasip.filters.FilterLMS(n=2, mu=mu, w="zeros").run(DESIRED, INPUT)[1]


@cases([0.6, -0.2])
def weights_of_rls(w):
    return padasip.filters.FilterRLS(n=2, mu=0.98, w="zeros").run(INPUT @ w, INPUT)[2][-1]


@cases([0.6, -0.2])
def error_of_normalised_lms(w):
    return padasip.filters.FilterNLMS(n=2, mu=0.5, w="zeros").run(INPUT @ w, INPUT)[1]


@cases([1.0, 2.0, 4.0, 3.0])
def standardised(x):
    return padasip.standardize(x)
