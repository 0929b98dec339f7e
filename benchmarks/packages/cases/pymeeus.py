"""Astronomical algorithms of Jean Meeus, with angles as objects."""

import numpy as np
from pymeeus import Coordinates
from pymeeus.Angle import Angle
from pymeeus.Epoch import Epoch
from pymeeus.Sun import Sun

from benchmarks.packages.cases import Cases

PACKAGE = "PyMeeus"
cases = Cases()


@cases([116.3, 28.0])
def ecliptic_coordinates(x):
    longitude, latitude = Coordinates.equatorial2ecliptical(Angle(x[0]), Angle(x[1]), Angle(23.44))
    return np.array([longitude(), latitude()])


@cases([213.9, 19.2, 201.3, -11.2])
def separation(x):
    return Coordinates.angular_separation(*(Angle(v) for v in x))()


@cases([0.1, 5.0])
def anomaly_of_kepler(x):
    eccentric, true = Coordinates.kepler_equation(x[0], Angle(x[1]))
    return np.array([eccentric(), true()])


@cases(2448908.5, step=1e-6)
def longitude_of_sun(day):
    longitude, radius = Sun.apparent_longitude_coarse(Epoch(day))
    return np.array([longitude(), radius])
