"""Adsorption: isotherms, their fits, and isosteric heats."""

import numpy as np
from pysorb import fit

from benchmarks.packages.cases import Cases

PACKAGE = "pysorb"
cases = Cases()
P = np.array([0.05, 0.3, 1.0, 3.0, 8.0])
T = np.array([280.0, 290.0, 300.0, 310.0, 320.0])
LOADINGS = np.array([0.3, 1.0, 2.0, 2.8, 3.1])


@cases([4.0, -3.5, -20.0])
def langmuir(p):
    return fit.model_langmuir((P, T), *p)


@cases([4.0, -3.5, -20.0, 0.7])
def toth(p):
    return fit.model_toth((P, T), *p)


@cases([2.5, -3.5, -20.0, 0.8, 1.5, -5.0, -25.0, 1.2])
def two_sites_of_sips(p):
    return fit.model_dssips((P, T), *p)


@cases([3.0, -4.5, -22.0, -5.5, -15.0])
def two_layers(p):
    return fit.model_bet((P, T), *p)


@cases([1.5, 0.2, 0.9])
def redlich_peterson(p):
    return fit.model_redlich_peterson_single((P, T), *p)


@cases([4.0, -3.5, -20.0])
def residual(p):
    residuals = fit.build_residual_with_constraints(
        fit.model_langmuir, (P, T), LOADINGS, ["qs", "log10_b0", "dH"], "", 1e3
    )
    return residuals(p)


@cases([4.0, -3.5, -20.0])
def pressure_of_loading(p):
    return fit.solve_pressure_for_loading(1.5, np.array([290.0, 310.0]), fit.model_langmuir, p)
