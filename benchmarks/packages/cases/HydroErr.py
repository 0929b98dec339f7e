"""Errors of hydrological simulations."""

import HydroErr
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "HydroErr"
cases = Cases()
OBSERVED = np.array([4.7, 6.0, 10.0, 3.1, 2.2])
SIMULATED = [5.3, 5.2, 8.4, 3.5, 2.6]


@cases(SIMULATED)
def kling_gupta(x):
    return HydroErr.kge_2012(x, OBSERVED)


@cases(SIMULATED)
def agreement(x):
    return np.array([HydroErr.d(x, OBSERVED), HydroErr.dr(x, OBSERVED), HydroErr.nse(x, OBSERVED)])


@cases(SIMULATED)
def angles_of_spectra(x):
    return np.array([HydroErr.sa(x, OBSERVED), HydroErr.sga(x, OBSERVED), HydroErr.sid(x, OBSERVED)])


@cases(SIMULATED)
def logarithmic_error(x):
    return np.array([HydroErr.rmsle(x, OBSERVED), HydroErr.male(x, OBSERVED), HydroErr.mase(x, OBSERVED)])
