"""Baselines of spectra."""

import numpy as np
import pybaselines

from benchmarks.packages.cases import Cases

PACKAGE = "pybaselines"
cases = Cases()

x = np.linspace(0.0, 4.0, 31)
spectrum = 1.0 + 0.3 * x + np.exp(-8.0 * (x - 2.0) ** 2)


@cases(spectrum)
def polynomial(y):
    return pybaselines.polynomial.poly(y, x, poly_order=2)[0][::5]


@cases(spectrum)
def least_squares(y):
    return pybaselines.whittaker.asls(y, lam=100.0, max_iter=3)[0][::5]


@cases(spectrum)
def noise_median(y):
    return pybaselines.smooth.noise_median(y, 5)[0][::5]
