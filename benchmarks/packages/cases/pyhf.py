"""Likelihoods of counting experiments."""

import numpy as np
import pyhf

from benchmarks.packages.cases import Cases

PACKAGE = "pyhf"
cases = Cases()

MODEL = pyhf.simplemodels.uncorrelated_background(signal=[12.0, 11.0], bkg=[50.0, 52.0], bkg_uncertainty=[3.0, 7.0])
DATA = [55.0, 60.0, *MODEL.config.auxdata]


@cases([1.2, 0.9, 1.05])
def log_likelihood(p):
    return MODEL.logpdf(p, DATA)[0]


@cases([1.2, 0.9, 1.05])
def expected_counts(p):
    return MODEL.expected_data(p)


@cases([1.2, 0.9, 1.05])
def expected_in_bins(p):
    return MODEL.expected_actualdata(p)


@cases([1.2, 0.9, 1.05])
def constraint(p):
    return MODEL.constraint_logpdf(np.array(MODEL.config.auxdata), p)


@cases([0.3, -0.4])
def interpolation_of_yields(alpha):
    histograms = [[[[8.0, 9.0], [10.0, 11.0], [13.0, 12.0]]]]
    return pyhf.interpolators.code4p(histograms)(alpha.reshape(1, 2))
