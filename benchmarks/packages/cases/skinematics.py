"""Rotations in three dimensions."""

import numpy as np
from skinematics import quat, rotmat, vector

from benchmarks.packages.cases import Cases

PACKAGE = "scikit-kinematics"
cases = Cases()


@cases([0.2, 0.4, -0.1])
def product_of_quaternions(x):
    return quat.q_mult(x, np.array([0.1, 0.0, 0.3]))


@cases([0.9, 0.2, 0.3, 0.1])
def matrix_of_quaternion(q):
    return quat.convert(quat.unit_q(q), to="rotmat")


@cases([30.0, 20.0, 40.0])
def sequence_of_rotations(angles):
    return rotmat.R("z", angles[0]) @ rotmat.R("y", angles[1]) @ rotmat.R("x", angles[2])


@cases([30.0, 0.2, 0.5, 60.0])
def denavit_hartenberg(x):
    return rotmat.dh(theta=x[0], d=x[1], r=x[2], alpha=x[3])


@cases([1.0, 0.5, 0.2])
def angle_between_vectors(v):
    return vector.angle(v, np.array([0.3, 1.0, 0.1]))


@cases([1.0, 0.5, 0.2])
def rotated(v):
    return vector.rotate_vector(v, np.array([0.1, 0.2, 0.3]))


@cases([1.0, 0.5, 0.2])
def shortest_rotation(v):
    return vector.q_shortest_rotation(v, np.array([0.3, 1.0, 0.1]))


@cases([[0.0, 0.1, 0.2], [1.0, 0.1, 0.3], [0.2, 1.0, 0.1]])
def orthonormal_vectors(p):
    return np.array(vector.GramSchmidt(p[0], p[1], p[2]))
