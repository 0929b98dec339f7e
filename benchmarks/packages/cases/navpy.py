"""Navigation."""

import navpy

from benchmarks.packages.cases import Cases

PACKAGE = "NavPy"
cases = Cases()


@cases([0.1, 0.2, 0.3])
def direction_cosines(x):
    return navpy.angle2dcm(x[0], x[1], x[2])


@cases([0.9, 0.1, 0.2, 0.3])
def angles_of_quaternion(x):
    return navpy.quat2angle(x[0], x[1:])


@cases([40.0, -80.0, 100.0])
def geodetic_to_ecef(x):
    return navpy.lla2ecef(x[0], x[1], x[2])


@cases([6e6, 1e5, 2e6])
def ecef_to_geodetic(x):
    return navpy.ecef2lla(x)


@cases([40.1, -80.1, 100.0], step=1e-4)
def geodetic_to_ned(x):
    return navpy.lla2ned(x[0], x[1], x[2], 40.0, -80.0, 0.0)


@cases([10.0, 20.0, 1.0, 40.0, 100.0])
def rates(x):
    return navpy.llarate(x[0], x[1], x[2], x[3], x[4])
