"""Distances on the earth."""

from geopy.distance import geodesic, great_circle
from geopy.point import Point

from benchmarks.packages.cases import Cases

PACKAGE = "geopy"
cases = Cases()


@cases([41.5, -81.7, 41.3, -80.9])
def distance_on_ellipsoid(x):
    return geodesic((x[0], x[1]), (x[2], x[3])).km


@cases([41.5, -81.7, 41.3, -80.9])
def distance_on_sphere(x):
    return great_circle((x[0], x[1]), (x[2], x[3])).miles


@cases([41.5, -81.7, 30.0, 100.0])
def destination(x):
    point = great_circle(kilometers=x[3]).destination(Point(x[0], x[1]), bearing=x[2])
    return [point.latitude, point.longitude]


@cases([41.5, -81.7, 41.3, -80.9])
def sum_of_distances(x):
    total = 2 * great_circle((x[0], x[1]), (x[2], x[3])) + great_circle((x[0], x[1]), (40.0, -80.0))
    return total.nautical
