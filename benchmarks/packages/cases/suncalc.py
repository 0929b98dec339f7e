"""Position of the sun."""

import datetime

import numpy as np
import suncalc
from suncalc import suncalc as parts

from benchmarks.packages.cases import Cases

PACKAGE = "suncalc"
cases = Cases()

DATE = datetime.datetime(2020, 6, 1, 15, 0, tzinfo=datetime.UTC)


@cases([20.0, 45.0])
def position(x):
    found = suncalc.get_position(DATE, x[0], x[1])
    return np.stack([found["azimuth"], found["altitude"]])


@cases([20.0, 45.0])
def moon(x):
    found = parts.getMoonPosition(DATE, x[1], x[0])
    return np.stack([found["azimuth"], found["altitude"], found["distance"]])


@cases(0.3)
def refraction(h):
    return parts.astro_refraction(h)


@cases([0.2, 0.8, 0.3])
def hour_angle(x):
    return parts.hour_angle(x[0], x[1], x[2])
