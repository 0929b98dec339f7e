"""Quaternions as arrays."""

import numpy as np
import rowan

from benchmarks.packages.cases import Cases

PACKAGE = "rowan"
cases = Cases()
P = np.array([0.5, 0.5, -0.5, 0.5])


@cases([0.9, 0.1, -0.3, 0.2])
def product_and_logarithm(q):
    return np.concatenate([rowan.multiply(q, P), rowan.log(q), rowan.exp(q)])


@cases([0.3, -0.4, 0.9])
def rotated(v):
    return rowan.rotate(P, v)


@cases([0.3, 0.5, 0.7])
def matrix_of_angles(x):
    return rowan.to_matrix(rowan.from_euler(*x))


@cases([0.9, 0.1, -0.3, 0.2])
def interpolated(q):
    return rowan.interpolate.slerp(rowan.normalize(q), P, 0.3)
