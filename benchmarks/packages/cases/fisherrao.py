"""Distances between probability distributions."""

import numpy as np
from fisherrao import beta, core

from benchmarks.packages.cases import Cases

PACKAGE = "fisherrao"
cases = Cases()
COVARIANCE = np.array([[2.0, 0.3], [0.3, 1.0]])


@cases([1.0, 0.2, 3.0])
def of_covariances(x):
    return core.spd_affine_distance(np.array([[x[0], x[1]], [x[1], x[2]]]), COVARIANCE)


@cases([1.0, 0.2, 3.0])
def by_a_matrix_logarithm(x):
    return core.spd_affine_distance_logm(np.array([[x[0], x[1]], [x[1], x[2]]]), COVARIANCE)


@cases([0.3, 0.4])
def of_normal_distributions(x):
    return core.calvo_oller_distance(x, COVARIANCE, np.zeros(2), np.eye(2))


@cases([2.0, 3.0, 1.5, 4.0])
def of_beta_distributions(x):
    return beta.kl_beta(*x)
