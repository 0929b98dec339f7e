"""Yield curves."""

import numpy as np
from nelson_siegel_svensson import NelsonSiegelCurve, NelsonSiegelSvenssonCurve
from nelson_siegel_svensson.calibrate import betas_ns_ols, errorfn_ns_ols

from benchmarks.packages.cases import Cases

PACKAGE = "nelson-siegel-svensson"
cases = Cases()

MATURITIES = np.array([0.5, 1.0, 2.0, 5.0, 10.0])
RATES = np.array([0.01, 0.012, 0.016, 0.022, 0.025])


@cases([0.028, -0.03, -0.04, -0.015, 1.1, 4.0])
def zero_rates(x):
    return NelsonSiegelSvenssonCurve(*x)(MATURITIES.copy())


@cases([0.028, -0.03, -0.04, 1.1])
def forward_rates(x):
    return NelsonSiegelCurve(*x).forward(MATURITIES.copy())


@cases([0.028, -0.03, -0.04, 1.1])
def zero_rate_of_one_maturity(x):
    return NelsonSiegelCurve(*x)(3.0)


@cases(1.5)
def error_of_fit(tau):
    return errorfn_ns_ols(tau, MATURITIES.copy(), RATES)


@cases([0.01, 0.012, 0.016, 0.022, 0.025])
def fitted_level(rates):
    return betas_ns_ols(1.5, MATURITIES.copy(), rates)[0].beta0
