"""Solar radiation."""

import datetime

import numpy as np
import solarpy

from benchmarks.packages.cases import Cases

PACKAGE = "solarpy"
cases = Cases()

DATE = datetime.datetime(2019, 3, 1, 11, 0)


@cases([100.0, 40.0])
def beam_irradiance(x):
    return solarpy.beam_irradiance(x[0], DATE, x[1])


@cases([0.1, 0.2, -0.97])
def irradiance_on_plane(normal):
    return solarpy.irradiance_on_plane(normal, 100.0, DATE, 40.0)


@cases([40.0, 3.0, 100.0])
def earth_centred(x):
    return np.stack(solarpy.lla2ecef(x[0], x[1], x[2]))


@cases([40.0, 0.3, 0.4])
def angle_of_incidence(x):
    return solarpy.theta(DATE, x[0], x[1], x[2])


@cases(2300.0)
def pressure(h):
    return solarpy.pressure(h)


@cases(40.0)
def daylight(lat):
    return solarpy.daylight_hours(DATE, lat)
