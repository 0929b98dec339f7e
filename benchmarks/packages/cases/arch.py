"""Models of volatility."""

import numpy as np
from arch.univariate import GARCH, Normal, StudentsT
from arch.univariate.recursions_python import garch_recursion

from benchmarks.packages.cases import Cases

PACKAGE = "arch"
cases = Cases()


RESIDUALS = np.array([0.3, -0.5, 0.2, 0.9, -0.1, 0.4])
BOUNDS = np.array([[1e-6, 1e6]] * 6)


@cases([0.1, 0.2, 0.6])
def variance_by_recursion(x):
    sigma2 = np.zeros(6)
    return garch_recursion(x, RESIDUALS**2, np.sign(RESIDUALS), sigma2, 1, 0, 1, 6, 0.2, BOUNDS)


@cases([0.1, 0.2, 0.6])
def likelihood_of_garch(x):
    sigma2 = np.zeros(6)
    GARCH(1, 0, 1).compute_variance(x, RESIDUALS, sigma2, 0.2, BOUNDS)
    return Normal().loglikelihood([], RESIDUALS, sigma2)


@cases([0.3, 0.4, 0.5])
def likelihood_of_normal(x):
    return Normal().loglikelihood([], RESIDUALS[:3], x)


@cases([8.0, 0.4])
def likelihood_of_t(x):
    return StudentsT().loglikelihood(x[:1], RESIDUALS, x[1] * np.ones(6))
