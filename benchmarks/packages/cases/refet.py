"""Reference evapotranspiration by the ASCE equations."""

import refet
from refet import calcs

from benchmarks.packages.cases import Cases

PACKAGE = "refet"
cases = Cases()

PLACE = {"elev": 1200, "lat": 39.5, "doy": 182}


@cases([10.0, 30.0, 1.2, 25.0, 3.0])
def daily_grass(x):
    day = refet.Daily(tmin=x[0], tmax=x[1], ea=x[2], rs=x[3], uz=x[4], zw=3, **PLACE, method="asce")
    return day.eto()


@cases([10.0, 30.0, 1.2, 25.0, 3.0])
def daily_alfalfa(x):
    day = refet.Daily(tmin=x[0], tmax=x[1], ea=x[2], rs=x[3], uz=x[4], zw=3, **PLACE, method="refet")
    return day.etr()


@cases([33.0, 1.2, 2.5, 3.0])
def hourly_grass(x):
    hour = refet.Hourly(
        tmean=x[0], ea=x[1], rs=x[2], uz=x[3], zw=3, elev=1200, lat=39.5, lon=-118.8, doy=182, time=18, method="asce"
    )
    return hour.eto()


@cases([39.5, 180.0])
def extraterrestrial_radiation(x):
    return calcs.ra_daily(x[0] * 0.01745, x[1])


@cases([25.0, 1.5])
def vapour_pressure_deficit(x):
    return calcs.vpd(calcs.sat_vapor_pressure(x[0]), x[1])
