"""Position and radiation of the sun; uses `math` and dates."""

import datetime

import numpy as np
from pysolar import radiation, solar

from benchmarks.packages.cases import Cases

PACKAGE = "pysolar"
cases = Cases()

NOON = datetime.datetime(2020, 6, 1, 17, 0, 0, tzinfo=datetime.UTC)


@cases([42.2, -71.4])
def altitude(x):
    return solar.get_altitude(x[0], x[1], NOON)


@cases([42.2, -71.4])
def azimuth(x):
    return solar.get_azimuth(x[0], x[1], NOON)


@cases([42.2, -71.4, 100.0])
def position(x):
    return np.stack(solar.get_position(x[0], x[1], NOON, elevation=x[2]))


@cases(50.0)
def direct_radiation(angle):
    return radiation.get_radiation_direct(NOON, angle)


@cases([42.2, -71.4])
def fast_altitude(x):
    return solar.get_altitude_fast(x[0], x[1], NOON)
