"""Quantitative economics; partly compiled by Numba."""

import numpy as np
import quantecon as qe

from benchmarks.packages.cases import Cases

PACKAGE = "quantecon"
cases = Cases()


@cases([0.9, 0.1, 0.2, 0.7])
def lyapunov(x):
    return qe.solve_discrete_lyapunov(x.reshape(2, 2) * 0.8, np.eye(2))


@cases([0.5, 0.2, 0.1])
def linear_quadratic_gain(x):
    lq = qe.LQ(np.eye(1) * x[0], np.eye(2), np.array([[1.0, x[1]], [0.0, 0.9]]), np.array([[0.0], [1.0 + x[2]]]))
    return lq.stationary_values()[1]


@cases([0.2, 0.5, 0.3])
def gini(x):
    return qe.gini_coefficient(x)


@cases([0.5, 0.3])
def stationary_distribution(x):
    p = np.array([[1.0 - x[0], x[0]], [x[1], 1.0 - x[1]]])
    return qe.MarkovChain(p).stationary_distributions[0]


@cases([0.5, 0.2, 0.9, 0.7])
def state_space_moments(x):
    model = qe.LinearStateSpace(np.array([[x[0], 0.0], [0.1, x[1]]]), np.eye(2) * x[2], np.array([[1.0, x[3]]]))
    generator = model.moment_sequence()
    next(generator)
    return next(generator)[3]
