"""Kinematics of arms."""

import numpy as np
import tinyik
from tinyik.core import Actuator

from benchmarks.packages.cases import Cases

PACKAGE = "tinyik"
cases = Cases()


@cases([0.3, 0.5, 0.2])
def end_effector(x):
    arm = Actuator(["z", [1.0, 0.0, 0.0], "y", [1.0, 0.0, 0.0], "x", [0.0, 0.5, 0.0]])
    arm.angles = x
    return arm.ee


@cases([0.3, 0.5])
def reach(x):
    arm = tinyik.Actuator(["z", [x[0], 0.0, 0.0], "z", [x[1], 0.0, 0.0]])
    arm.angles = np.deg2rad([30.0, 60.0])
    return np.linalg.norm(arm.ee)
