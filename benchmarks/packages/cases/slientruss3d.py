"""Trusses in two and three dimensions."""

import numpy as np
from slientruss3d.truss import Truss
from slientruss3d.type import MemberType, SupportType

from benchmarks.packages.cases import Cases

PACKAGE = "slientruss3d"
cases = Cases()


def truss(height, area, load):
    frame = Truss(2)
    frame.AddNewJoint((0.0, 0.0), SupportType.PIN)
    frame.AddNewJoint((4.0, 0.0), SupportType.ROLLER_Y)
    frame.AddNewJoint((2.0, height))
    for start, end in ((0, 1), (0, 2), (1, 2)):
        frame.AddNewMember(start, end, MemberType(area, 1e7, 0.1))
    frame.AddExternalForce(2, (0.0, load))
    frame.Solve()
    return frame


@cases([2.5, -3000.0])
def forces(x):
    frame = truss(x[0], 1.0, x[1])
    return np.array(list(frame.GetInternalForces().values()))


@cases([2.5, 1.5])
def displacements(x):
    return np.concatenate(list(truss(x[0], x[1], -3000.0).GetDisplacements().values()))


@cases([2.5, 1.5])
def weight(x):
    return truss(x[0], x[1], -3000.0).weight
