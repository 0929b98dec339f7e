"""Attitude from sensors, in NumPy."""

import numpy as np
from ahrs.common.orientation import acc2q, ecompass, q2R, q_prod, shepperd
from ahrs.common.quaternion import Quaternion
from ahrs.filters import Madgwick

from benchmarks.packages.cases import Cases

PACKAGE = "AHRS"
cases = Cases()


@cases([0.9, 0.1, 0.2, 0.3])
def rotation_matrix(q):
    return q2R(q)


@cases([0.9, 0.1, 0.2, 0.3])
def product(q):
    return q_prod(q, np.array([0.5, 0.5, -0.5, 0.5]))


@cases([0.3, 0.2, 9.7])
def tilt(acceleration):
    return acc2q(acceleration)


@cases([0.9, 0.1, 0.2, 0.3])
def quaternion_class(q):
    return Quaternion(q).to_DCM()


@cases([0.1, 0.2, 0.3])
def quaternion_of_matrix(v):
    a = np.array([[1.0, -v[2], v[1]], [v[2], 1.0, -v[0]], [-v[1], v[0], 1.0]])
    return shepperd(a)


@cases([0.3, 0.2, 9.7, 20.0, 3.0, 40.0])
def compass(x):
    return ecompass(x[:3], x[3:], frame="NED")


@cases([0.1, 0.2, 0.3, 0.3, 0.2, 9.7])
def madgwick_step(x):
    return Madgwick().updateIMU(np.array([1.0, 0.0, 0.0, 0.0]), gyr=x[:3], acc=x[3:])
