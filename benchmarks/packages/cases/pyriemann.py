"""Geometry of positive definite matrices."""

import numpy as np
from pyriemann.utils.base import logm, sqrtm
from pyriemann.utils.distance import distance_logdet, distance_riemann, distance_wasserstein
from pyriemann.utils.geodesic import geodesic_riemann
from pyriemann.utils.mean import mean_logeuclid, mean_riemann

from benchmarks.packages.cases import Cases

PACKAGE = "pyriemann"
cases = Cases()

A = np.array([[2.0, 0.3], [0.3, 1.0]])
B = np.array([[1.5, -0.2], [-0.2, 0.7]])


def positive(x):
    """Return the symmetric matrix of three entries."""
    return np.array([[x[0], x[1]], [x[1], x[2]]])


@cases([2.5, 0.4, 1.2])
def distances(x):
    return np.array([distance(positive(x), A) for distance in (distance_riemann, distance_logdet)])


@cases([2.5, 0.4, 1.2])
def wasserstein_distance(x):
    return distance_wasserstein(positive(x), A)


@cases([2.5, 0.4, 1.2])
def logarithm_and_root(x):
    return logm(positive(x)) + sqrtm(positive(x))


@cases([2.5, 0.4, 1.2])
def point_of_geodesic(x):
    return geodesic_riemann(positive(x), A, 0.3)


@cases([2.5, 0.4, 1.2])
def logarithmic_mean(x):
    return mean_logeuclid(np.stack([positive(x), A, B]))


@cases([2.5, 0.4, 1.2], rtol=1e-4)
def riemannian_mean(x):
    return mean_riemann(np.stack([positive(x), A, B]), tol=1e-12)
