"""Positions of the sun and of satellites."""

import numpy as np
from pyorbital import astronomy
from pyorbital.orbital import Orbital, get_observer_look

from benchmarks.packages.cases import Cases

PACKAGE = "pyorbital"
cases = Cases()


NOON = np.datetime64("2024-06-21T12:00:00")
STATION = (
    "1 25544U 98067A   19343.69339541  .00001764  00000-0  38792-4 0  9991",
    "2 25544  51.6439 211.2001 0007417  17.6667  85.6398 15.50103472202482",
)


@cases([10.0, 50.0])
def solar_zenith_angle(x):
    return astronomy.sun_zenith_angle(NOON, x[0], x[1])


@cases([10.0, 50.0])
def solar_altitude_and_azimuth(x):
    return astronomy.get_alt_az(NOON, x[0], x[1])


@cases([10.0, 50.0, 0.2])
def position_of_observer(x):
    return np.stack(astronomy.observer_position(NOON, x[0], x[1], x[2])[0])


@cases([12.0, 48.0, 800.0, 10.0, 50.0, 0.2])
def view_of_satellite(x):
    return get_observer_look(x[0], x[1], x[2], NOON, x[3], x[4], x[5])


@cases([10.0, 50.0, 0.2])
def view_of_station(x):
    orbital = Orbital("ISS", line1=STATION[0], line2=STATION[1])
    return orbital.get_observer_look(np.datetime64("2019-12-10T12:00:00"), x[0], x[1], x[2])
