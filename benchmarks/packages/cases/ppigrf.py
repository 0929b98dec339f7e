"""Geomagnetic reference field in pure Python."""

from datetime import datetime

import numpy as np
import ppigrf

from benchmarks.packages.cases import Cases

PACKAGE = "ppigrf"
cases = Cases()
DATE = datetime(2021, 3, 28)


@cases([5.3, 60.4, 10.0])
def field(x):
    return np.ravel(ppigrf.igrf(x[0], x[1], x[2], DATE))


@cases([6500.0, 30.0, 4.0])
def field_in_geocentric_coordinates(x):
    return np.ravel(ppigrf.igrf_gc(x[0], x[1], x[2], DATE))


@cases([10000.0, 15000.0, -40000.0])
def inclination_and_declination(b):
    return np.array(ppigrf.get_inclination_declination(*b))
