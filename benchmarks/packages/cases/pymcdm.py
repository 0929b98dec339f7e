"""Decisions by several criteria."""

import numpy as np
from pymcdm import methods, weights

from benchmarks.packages.cases import Cases

PACKAGE = "pymcdm"
cases = Cases()
TYPES = np.array([1, -1, 1])


def matrix(x):
    return np.array([[x[0], 2.0, 5.0], [3.0, x[1], 4.5], [2.5, 3.0, x[2]], [1.5, 4.0, 3.0]])


@cases([1.2, 3.7, 4.1])
def topsis(x):
    return methods.TOPSIS()(matrix(x), np.array([0.5, 0.3, 0.2]), TYPES)


@cases([1.2, 3.7, 4.1])
def vikor(x):
    return methods.VIKOR()(matrix(x), np.array([0.5, 0.3, 0.2]), TYPES)


@cases([0.5, 0.3, 0.2])
def copras(w):
    return methods.COPRAS()(matrix([1.2, 3.7, 4.1]), w / np.sum(w), TYPES)


@cases([1.2, 3.7, 4.1])
def weights_by_entropy(x):
    return weights.entropy_weights(matrix(x))


@cases([1.2, 3.7, 4.1])
def weights_by_correlation(x):
    return weights.critic_weights(matrix(x))
