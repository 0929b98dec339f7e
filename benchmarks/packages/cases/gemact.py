"""Actuarial distributions and copulas."""

import numpy as np
from gemact import copulas, distributions

from benchmarks.packages.cases import Cases

PACKAGE = "gemact"
cases = Cases()
LOSSES = np.array([0.5, 1.2, 3.0])


@cases([2.5, 1.4])
def burr(p):
    return distributions.Burr12(c=p[0], d=p[1], scale=2.0).cdf(LOSSES)


@cases([2.5, 1.4])
def gamma(p):
    return distributions.Gamma(a=p[0], scale=p[1]).logpdf(LOSSES)


@cases([0.5, 0.8])
def lognormal(p):
    return distributions.Lognormal(shape=p[1], scale=np.exp(p[0])).cdf(LOSSES)


@cases([2.0, 1.5, 0.3, 2.5])
def generalised_beta(p):
    return distributions.GenBeta(shape1=p[0], shape2=p[1], shape3=p[2] + 1, scale=p[3] + 2).cdf(LOSSES)


@cases(LOSSES)
def density(x):
    return distributions.Weibull(c=1.7, scale=2.0).pdf(x)


@cases([1.5])
def clayton(p):
    return copulas.ClaytonCopula(par=p[0], dim=2).cdf(np.array([[0.3, 0.6], [0.8, 0.5]]))


@cases([[0.3, 0.6], [0.8, 0.5]])
def frank(x):
    return copulas.FrankCopula(par=2.0, dim=2).cdf(x)
