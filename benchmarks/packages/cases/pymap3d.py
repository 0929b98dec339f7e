"""Geodetic coordinates."""

import pymap3d
from pymap3d.vincenty import vdist, vreckon

from benchmarks.packages.cases import Cases

PACKAGE = "pymap3d"
cases = Cases()


@cases([40.0, -80.0, 100.0])
def geodetic_to_ecef(x):
    return pymap3d.geodetic2ecef(x[0], x[1], x[2])


@cases([6e6, 1e5, 2e6])
def ecef_to_geodetic(x):
    return pymap3d.ecef2geodetic(x[0], x[1], x[2])


@cases([41.0, -80.5, 100.0], step=1e-4)
def geodetic_to_range(x):
    return pymap3d.geodetic2aer(x[0], x[1], x[2], 40.0, -80.0, 0.0)


@cases([1e3, 2e3, 3e3])
def enu_to_geodetic(x):
    return pymap3d.enu2geodetic(x[0], x[1], x[2], 40.0, -80.0, 0.0)


@cases([40.0, -80.0, 41.0, -79.0], step=1e-4, rtol=1e-5)
def distance_by_vincenty(x):
    return vdist(x[0], x[1], x[2], x[3])[0]


@cases([40.0, -80.0, 1e5, 30.0], rtol=1e-5)
def reckon_by_vincenty(x):
    return vreckon(x[0], x[1], x[2], x[3])


@cases(40.0)
def parametric_latitude(latitude):
    return pymap3d.geodetic2parametric(latitude)


@cases(40.0)
def rectifying_latitude(latitude):
    return pymap3d.geodetic2rectifying(latitude)
