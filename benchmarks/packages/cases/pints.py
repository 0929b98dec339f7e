"""Inference for time series: toy models and likelihoods."""

import numpy as np
import pints
import pints.toy

from benchmarks.packages.cases import Cases

PACKAGE = "pints"
cases = Cases()

times = np.linspace(0.0, 10.0, 6)
data = np.array([2.0, 5.0, 13.0, 30.0, 48.0, 57.0])


@cases([0.5, 60.0])
def logistic_growth(x):
    return pints.toy.LogisticModel(2).simulate(x, times)


@cases([0.5, 60.0, 2.0])
def likelihood(x):
    problem = pints.SingleOutputProblem(pints.toy.LogisticModel(2), times, data)
    return pints.GaussianLogLikelihood(problem)(x)


@cases([0.5, 0.7])
def rosenbrock(x):
    return pints.toy.RosenbrockLogPDF()(x)


@cases([0.5, 60.0])
def squared_error(x):
    problem = pints.SingleOutputProblem(pints.toy.LogisticModel(2), times, data)
    return pints.SumOfSquaresError(problem)(x)


@cases([0.3, 1.2])
def prior(x):
    return pints.ComposedLogPrior(pints.NormalLogPrior(0.0, 1.0), pints.HalfCauchyLogPrior(0.0, 2.0))(x)
