"""Calibration of hydrological models: objective functions and likelihoods."""

import numpy as np
from spotpy import likelihoods, objectivefunctions

from benchmarks.packages.cases import Cases

PACKAGE = "spotpy"
cases = Cases()

measured = np.array([1.0, 2.5, 3.1, 2.2, 1.7])
simulated = np.array([1.2, 2.1, 3.3, 2.0, 1.9])


@cases(simulated)
def nash_sutcliffe(x):
    return objectivefunctions.nashsutcliffe(measured, x)


@cases(simulated)
def kling_gupta(x):
    return objectivefunctions.kge(measured, x)


@cases(simulated)
def ratio_of_errors(x):
    return objectivefunctions.rsr(measured, x)


@cases(simulated)
def correlation(x):
    return objectivefunctions.rsquared(measured, x)


@cases(simulated)
def likelihood(x):
    return likelihoods.gaussianLikelihoodMeasErrorOut(list(measured), list(x))
