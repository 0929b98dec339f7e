"""Serial robots and their frames."""

import numpy as np
from visual_kinematics.Frame import Frame
from visual_kinematics.RobotSerial import RobotSerial

from benchmarks.packages.cases import Cases

PACKAGE = "visual-kinematics"
cases = Cases()
DH = np.array([[0.163, 0.0, 0.5 * np.pi, 0.0], [0.0, 0.632, np.pi, 0.5], [0.1, 0.6005, np.pi, 0.0]])


@cases([0.3, -0.4, 0.6])
def end_frame(q):
    return RobotSerial(DH).forward(q).t_4_4[:3]


@cases([0.3, -0.4, 0.6])
def robot_jacobian(q):
    robot = RobotSerial(DH)
    robot.forward(q)
    return robot.jacobian


@cases([0.1, 0.2, 0.4])
def angles_of_frame(x):
    return Frame.from_euler_3(x, np.ones((3, 1))).euler_3
