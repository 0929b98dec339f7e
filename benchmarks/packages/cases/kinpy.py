"""Kinematics of robots."""

import kinpy

from benchmarks.packages.cases import Cases

PACKAGE = "kinpy"
cases = Cases()
ROBOT = """<robot name="arm">
<link name="base"/><link name="upper"/><link name="lower"/><link name="hand"/>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
<origin xyz="0 0 0.3" rpy="0 0 0.1"/><axis xyz="0 0 1"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
<joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/>
<origin xyz="0.4 0 0" rpy="0 0 0"/><axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
<joint name="wrist" type="revolute"><parent link="lower"/><child link="hand"/>
<origin xyz="0.3 0 0.1" rpy="0.2 0 0"/><axis xyz="1 0 0"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
</robot>"""
ARM = kinpy.build_serial_chain_from_urdf(ROBOT, "hand")


@cases([0.3, -0.5, 0.7])
def position(angles):
    return ARM.forward_kinematics(angles).pos


@cases([0.3, -0.5, 0.7])
def orientation(angles):
    return ARM.forward_kinematics(angles).rot


@cases([0.3, -0.5, 0.7])
def matrix_of_pose(angles):
    return ARM.forward_kinematics(angles).matrix()


@cases([0.3, -0.5, 0.7])
def jacobian_of_package(angles):
    return ARM.jacobian(angles)


@cases([0.1, 0.2, 0.3, 1.0, 2.0, 3.0])
def chain_of_transforms(x):
    first = kinpy.Transform(rot=x[:3], pos=x[3:])
    return (first * kinpy.Transform(rot=[0.0, 0.4, 0.0], pos=[0.1, 0.0, 0.0])).inverse().pos
