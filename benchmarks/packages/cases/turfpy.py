"""Geometry of features of GeoJSON on the sphere."""

import numpy as np
from geojson import Feature, LineString, Point, Polygon
from turfpy import measurement

from benchmarks.packages.cases import Cases

PACKAGE = "turfpy"
cases = Cases()


@cases([48.1, 11.5, 52.5, 13.4])
def distance(x):
    start, end = Feature(geometry=Point((x[0], x[1]))), Feature(geometry=Point((x[2], x[3])))
    return measurement.distance(start, end)


@cases([48.1, 11.5, 52.5, 13.4])
def bearing(x):
    start, end = Feature(geometry=Point((x[0], x[1]))), Feature(geometry=Point((x[2], x[3])))
    return measurement.bearing(start, end)


@cases([125.0, 30.0])
def area(x):
    polygon = Polygon([[(x[0], -15.0), (113.0, -22.0), (154.0, -27.0), (144.0, -x[1]), (x[0], -15.0)]])
    return measurement.area(polygon)


@cases([150.0, 40.0])
def destination(x):
    found = measurement.destination(Feature(geometry=Point((-75.3, 39.9))), x[0], x[1])
    return np.array(found["geometry"]["coordinates"])


@cases([3.0, 1.5])
def length(x):
    return measurement.length(Feature(geometry=LineString([(0.0, 0.0), (x[0], 1.0), (x[1], 2.0)])))
