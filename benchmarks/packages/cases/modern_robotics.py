"""Kinematics and dynamics of robots by screws."""

import modern_robotics as mr
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "modern_robotics"
cases = Cases()
SCREWS = np.array([[0, 0, 1, 4, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, -1, -6, 0, -0.1]], dtype=float).T
HOME = np.array([[-1, 0, 0, 0], [0, 1, 0, 6], [0, 0, -1, 2], [0, 0, 0, 1]], dtype=float)
M01 = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.089159], [0, 0, 0, 1]])
M12 = np.array([[0, 0, 1, 0.28], [0, 1, 0, 0.13585], [-1, 0, 0, 0], [0, 0, 0, 1]])
M23 = np.array([[1, 0, 0, 0], [0, 1, 0, -0.1197], [0, 0, 1, 0.395], [0, 0, 0, 1]])
M34 = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.14225], [0, 0, 0, 1]])
INERTIA = np.array([np.diag([0.010267, 0.010267, 0.00666, 3.7, 3.7, 3.7])] * 3)
AXES = np.array([[1, 0, 1, 0, 1, 0], [0, 1, 0, -0.089, 0, 0], [0, 1, 0, -0.089, 0, 0.425]], dtype=float).T
LINKS = np.array([M01, M12, M23, M34])
GRAVITY = np.array([0, 0, -9.8])


@cases([0.7, 3.0, 0.5])
def forward_kinematics(q):
    return mr.FKinSpace(HOME, SCREWS, q)


@cases([0.1, 0.2, 0.3])
def inverse_dynamics(q):
    return mr.InverseDynamics(
        q, np.array([0.1, 0.2, 0.3]), np.array([2, 1.5, 1]), GRAVITY, np.ones(6), LINKS, INERTIA, AXES
    )


@cases([0.1, 0.2, 0.3])
def mass_matrix(q):
    return mr.MassMatrix(q, LINKS, INERTIA, AXES)


@cases([0.3, -0.4, 0.8])
def logarithm_of_rotation(w):
    return mr.so3ToVec(mr.MatrixLog3(mr.MatrixExp3(mr.VecToso3(w))))


@cases([0.1, 0.2, 0.3])
def forward_dynamics(q):
    return mr.ForwardDynamics(
        q, np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.6, 0.7]), GRAVITY, np.ones(6), LINKS, INERTIA, AXES
    )
