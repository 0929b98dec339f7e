"""Kinematics of robots."""

import numpy as np
from ikpy.chain import Chain
from ikpy.link import OriginLink, URDFLink

from benchmarks.packages.cases import Cases

PACKAGE = "ikpy"
cases = Cases()
arm = Chain(
    [
        OriginLink(),
        URDFLink("shoulder", [0, 0, 1.0], [0, 0, 0], [0, 0, 1.0]),
        URDFLink("elbow", [1.0, 0, 0], [0, 0, 0], [0, 1.0, 0]),
        URDFLink("wrist", [0.5, 0, 0], [0, 0, 0], [0, 1.0, 0]),
    ],
    active_links_mask=[False, True, True, True],
)


@cases([0.0, 0.3, 0.4, 0.2])
def forward_kinematics(angles):
    return arm.forward_kinematics(angles)[:3, 3]


@cases([0.3, 0.4, 0.2])
def distance_to_target(angles):
    pose = arm.forward_kinematics([0.0, angles[0], angles[1], angles[2]])
    return np.linalg.norm(pose[:3, 3] - np.array([1.0, 0.5, 0.3]))
