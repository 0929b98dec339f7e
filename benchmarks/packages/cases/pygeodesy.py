"""Geodesy."""

from pygeodesy import Ellipsoids, ecef, formy, toUtm8
from pygeodesy.ellipsoidalVincenty import LatLon as EllipsoidalLatLon
from pygeodesy.sphericalTrigonometry import LatLon

from benchmarks.packages.cases import Cases

PACKAGE = "pygeodesy"
cases = Cases()


@cases([52.2, 0.12, 48.86, 2.35])
def distance_on_sphere(x):
    return LatLon(x[0], x[1]).distanceTo(LatLon(x[2], x[3]))


@cases([52.2, 0.12, 48.86, 2.35])
def bearing_and_midpoint(x):
    start, end = LatLon(x[0], x[1]), LatLon(x[2], x[3])
    middle = start.midpointTo(end)
    return [start.initialBearingTo(end), middle.lat, middle.lon]


@cases([52.2, 0.12, 48.86, 2.35], step=1e-4)
def distance_by_vincenty(x):
    return EllipsoidalLatLon(x[0], x[1]).distanceTo(EllipsoidalLatLon(x[2], x[3]))


@cases([52.2, 0.12, 48.86, 2.35])
def distance_by_haversine(x):
    return formy.haversine(x[0], x[1], x[2], x[3])


@cases([40.0, -80.0, 100.0])
def geodetic_to_ecef(x):
    found = ecef.EcefKarney(Ellipsoids.WGS84).forward(x[0], x[1], x[2])
    return [found.x, found.y, found.z]


@cases([40.0, -80.0], step=1e-4)
def utm(x):
    found = toUtm8(x[0], x[1])
    return [found.easting, found.northing]


@cases(45.0)
def radii_of_curvature(latitude):
    return [Ellipsoids.WGS84.rocMeridional(latitude), Ellipsoids.WGS84.rocPrimeVertical(latitude)]
