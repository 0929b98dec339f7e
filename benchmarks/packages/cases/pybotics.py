"""Robots by Denavit-Hartenberg parameters."""

import numpy as np
from pybotics.geometry import matrix_2_vector, vector_2_matrix
from pybotics.predefined_models import ur10
from pybotics.robot import Robot

from benchmarks.packages.cases import Cases

PACKAGE = "pybotics"
cases = Cases()
ROBOT = Robot.from_parameters(ur10())
Q = [0.1, -0.7, 0.5, 0.2, 0.4, 0.3]


@cases(Q)
def forward_kinematics(q):
    return ROBOT.fk(q)[:3]


@cases(Q)
def jacobian_of_flange(q):
    return ROBOT.jacobian_flange(q)


@cases([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
def vector_of_pose(x):
    return np.asarray(matrix_2_vector(vector_2_matrix(x)))


@cases(Q)
def torques(q):
    return np.asarray(ROBOT.compute_joint_torques([0, 0, -5.0, 0.1, 0, 0], q=q))
