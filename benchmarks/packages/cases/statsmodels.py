"""Likelihoods of statistical models."""

import numpy as np
import statsmodels.api as sm
from statsmodels.miscmodels.tmodel import TLinearModel
from statsmodels.tsa.arima_process import ArmaProcess

from benchmarks.packages.cases import Cases

PACKAGE = "statsmodels"
cases = Cases()
X = np.array([[1.0, 0.2], [1.0, 0.5], [1.0, 0.9], [1.0, 1.4]])
y = np.array([0.0, 1.0, 0.0, 1.0])
logit, probit, poisson = sm.Logit(y, X), sm.Probit(y, X), sm.Poisson(y, X)
gamma = sm.GLM(y + 1.0, X, family=sm.families.Gamma(sm.families.links.Log()))


@cases([0.1, 0.2])
def logit_likelihood(b):
    return logit.loglike(b)


@cases([0.1, 0.2])
def probit_likelihood(b):
    return probit.loglike(b)


@cases([0.1, 0.2])
def poisson_likelihood(b):
    return poisson.loglike(b)


@cases([0.1, 0.2])
def gamma_likelihood(b):
    return gamma.loglike(b, scale=1.0)


@cases([0.5, 0.3])
def autocovariance(x):
    return ArmaProcess([1.0, -x[0]], [1.0, x[1]]).acovf(3)


@cases([0.3, 1.2, 0.7, 2.0])
def least_squares(targets):
    return sm.OLS(targets, X).fit().params


@cases([0.1, 0.2, 0.8, 5.0])
def t_likelihood(b):
    return TLinearModel(y, X).loglike(b)
