"""Geometry on the sphere."""

import numpy as np
import s2sphere

from benchmarks.packages.cases import Cases

PACKAGE = "s2sphere"
cases = Cases()

other = s2sphere.LatLng.from_degrees(48.2, 16.4)


@cases([51.5, -0.1])
def distance(x):
    return s2sphere.LatLng.from_degrees(x[0], x[1]).get_distance(other).radians


@cases([0.9, -0.1])
def point(x):
    p = s2sphere.LatLng.from_radians(x[0], x[1]).to_point()
    return np.array([p[0], p[1], p[2]])


@cases([0.3, 0.5, 0.8])
def latitude_and_longitude(x):
    found = s2sphere.LatLng.from_point(s2sphere.Point(*x))
    return np.array([found.lat().radians, found.lng().radians])


@cases(0.4)
def area_of_cap(angle):
    return s2sphere.Cap.from_axis_angle(s2sphere.Point(1, 0, 0), s2sphere.Angle.from_radians(angle)).area()
