"""Psychometric functions."""

import numpy as np
import pypalamedes

from benchmarks.packages.cases import Cases

PACKAGE = "pypalamedes"
cases = Cases()
LEVELS = np.array([-1.0, -0.3, 0.2, 0.8])
INTENSITIES = np.array([0.3, 0.8, 1.5, 2.5])


@cases([0.1, 2.0, 0.25, 0.02])
def logistic(p):
    return pypalamedes.logistic(p, LEVELS)


@cases([0.1, 2.0, 0.25, 0.02])
def cumulative_normal(p):
    return pypalamedes.cumulative_normal(p, LEVELS)


@cases([0.9, 2.0, 0.25, 0.02])
def weibull(p):
    return pypalamedes.weibull(p, INTENSITIES)


@cases([0.1, 2.0, 0.25, 0.02])
def gumbel(p):
    return pypalamedes.gumbel(p, LEVELS)


@cases([0.1, 2.0, 0.25, 0.02])
def threshold(p):
    return pypalamedes.hyperbolic_secant(p, 0.75, "Inverse")


@cases([0.1, 2.0, 0.25, 0.02])
def slope(p):
    return pypalamedes.logistic(p, LEVELS, "Derivative")


@cases([0.9, 2.0, 0.25, 0.02])
def likelihood(p):
    chance = pypalamedes.quick(p, INTENSITIES)
    correct = np.array([12, 15, 18, 20])
    return np.sum(correct * np.log(chance) + (20 - correct) * np.log(1 - chance))
