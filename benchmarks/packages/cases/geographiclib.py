"""Geodesics on the ellipsoid; written with functions of `math`."""

from geographiclib.geodesic import Geodesic

from benchmarks.packages.cases import Cases

PACKAGE = "geographiclib"
cases = Cases()
earth = Geodesic.WGS84


@cases([40.6, -73.8, 51.6, -0.5])
def inverse_distance(x):
    return earth.Inverse(x[0], x[1], x[2], x[3])["s12"]


@cases([40.6, -73.8, 45.0, 1e6])
def direct(x):
    found = earth.Direct(x[0], x[1], x[2], x[3])
    return [found["lat2"], found["lon2"]]


@cases(1e6)
def position_on_line(distance):
    return earth.Line(40.6, -73.8, 45.0).Position(distance)["lat2"]
