"""Sun and moon; uses `math`."""

import datetime

import numpy as np
from astral import Observer, julian, sun

from benchmarks.packages.cases import Cases

PACKAGE = "astral"
cases = Cases()

DATE = datetime.datetime(2020, 6, 1, 15, 0, tzinfo=datetime.UTC)


@cases(0.2)
def declination(century):
    return sun.sun_declination(century)


@cases(0.2)
def equation_of_time(century):
    return sun.eq_of_time(century)


@cases([45.0, 20.0])
def zenith_and_azimuth(x):
    return np.stack(sun.zenith_and_azimuth(Observer(x[0], x[1], 0.0), DATE))


@cases([45.0, 20.0])
def elevation(x):
    return sun.elevation(Observer(x[0], x[1], 0.0), DATE, with_refraction=True)


@cases([45.0, 15.0])
def hour_angle(x):
    return sun.hour_angle(x[0], x[1], 90.8, sun.SunDirection.RISING)


@cases(58849.3)
def day(number):
    return julian.julianday_to_juliancentury(number)
