"""Rotations and poses."""

import spatialmath.base as smb
from spatialmath import SE3, SO3, UnitQuaternion

from benchmarks.packages.cases import Cases

PACKAGE = "spatialmath-python"
cases = Cases()


@cases(0.4)
def rotation_matrix(theta):
    return smb.rotx(theta)


@cases([0.1, 0.2, 0.3])
def matrix_of_angles(x):
    return smb.rpy2r(x[0], x[1], x[2])


@cases([0.1, 0.2, 0.3])
def angles_of_matrix(x):
    return smb.tr2rpy(smb.rpy2r(x))


@cases([0.1, 0.2, 0.3])
def exponential_of_rotation(x):
    return smb.trexp(x)


@cases([0.1, 0.2, 0.3])
def pose(x):
    return (SE3.Rx(x[0]) * SE3.Trans(x[1], x[2], 1.0)).A


@cases([0.1, 0.2])
def rotated_point(x):
    return (SO3.Rx(x[0]) * SO3.Rz(x[1])) * [1.0, 2.0, 3.0]


@cases([0.1, 0.2, 0.3])
def unit_quaternion(x):
    return UnitQuaternion.RPY(x).vec
