"""Manifolds of matrices."""

import numpy as np
from pymanopt import manifolds

from benchmarks.packages.cases import Cases

PACKAGE = "pymanopt"
cases = Cases()
SPHERE = manifolds.Sphere(3)
STIEFEL = manifolds.Stiefel(3, 2)
SPD = manifolds.SymmetricPositiveDefinite(2)
BASE = np.linalg.qr(np.array([[1.0, 0.2], [0.3, 1.0], [0.5, -0.4]]))[0]


@cases([0.2, -0.1, 0.3])
def exponential_and_distance(v):
    p = np.array([0.6, 0.0, 0.8])
    q = SPHERE.exp(p, SPHERE.projection(p, v))
    return np.append(q, SPHERE.dist(p, q))


@cases([[0.1, 0.2], [-0.3, 0.1], [0.2, 0.4]])
def retraction(v):
    return STIEFEL.retraction(BASE, STIEFEL.projection(BASE, v))


@cases([[2.0, 0.3], [0.3, 1.5]])
def distance_of_matrices(a):
    return SPD.dist((a + a.T) / 2, np.array([[1.0, 0.2], [0.2, 1.0]]))


@cases([[0.2, 0.1], [0.1, 0.3]])
def exponential_of_matrices(v):
    return SPD.exp(np.array([[1.0, 0.2], [0.2, 1.0]]), (v + v.T) / 2)
