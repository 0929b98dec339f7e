"""Orbits of satellites from two-line elements."""

import sgp4.api
from sgp4.api import WGS72
from sgp4.model import Satrec

from benchmarks.packages.cases import Cases

PACKAGE = "sgp4"
cases = Cases()

STATION = (
    "1 25544U 98067A   19343.69339541  .00001764  00000-0  38792-4 0  9991",
    "2 25544  51.6439 211.2001 0007417  17.6667  85.6398 15.50103472202482",
)
MOLNIYA = (
    "1 08195U 75081A   06176.33215444  .00000099  00000-0  11873-3 0   813",
    "2 08195  64.1586 279.0717 6877146 264.7651  20.2257  2.00491383225656",
)


@cases(30.0)
def position(minutes):
    return Satrec.twoline2rv(*STATION).sgp4_tsince(minutes)[1]


@cases(30.0)
def velocity(minutes):
    return Satrec.twoline2rv(*STATION).sgp4_tsince(minutes)[2]


@cases(300.0)
def position_in_deep_space(minutes):
    return Satrec.twoline2rv(*MOLNIYA).sgp4_tsince(minutes)[1]


@cases([0.0007417, 0.3083, 0.9013, 1.4947, 0.067635, 3.6861], step=1e-3)
def position_from_elements(x):
    satellite = Satrec()
    satellite.sgp4init(WGS72, "i", 25544, 25545.69339541, 3.8792e-5, 0.0, 0.0, x[0], x[1], x[2], x[3], x[4], x[5])
    return satellite.sgp4_tsince(30.0)[1]


@cases(0.86, step=1e-4)
def position_at_date(fraction):
    return Satrec.twoline2rv(*STATION).sgp4(2458826.5, fraction)[1]


@cases(0.86, step=1e-4)
def position_by_compiled_code(fraction):
    return sgp4.api.Satrec.twoline2rv(*STATION).sgp4(2458826.5, fraction)[1]
