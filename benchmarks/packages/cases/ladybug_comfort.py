"""Outdoor and indoor comfort of plain numbers; uses `math`."""

import numpy as np
from ladybug import psychrometrics
from ladybug_comfort import adaptive, at, di, hi, humidex, pet, pmv, utci, wbgt, wc

from benchmarks.packages.cases import Cases

PACKAGE = "ladybug-comfort"
cases = Cases()


@cases([25.0, 26.0, 0.08, 50.0, 1.2, 0.5])
def predicted_mean_vote(x):
    return pmv.predicted_mean_vote(x[0], x[1], x[2], x[3], x[4], x[5])["pmv"]


@cases([25.0, 26.0, 0.2, 50.0, 1.2, 0.5])
def pierce_temperature(x):
    return pmv.pierce_set(x[0], x[1], x[2], x[3], x[4], x[5])


@cases([25.0, 26.0, 1.5, 50.0])
def thermal_climate_index(x):
    return utci.universal_thermal_climate_index(x[0], x[1], x[2], x[3])


@cases([30.0, 60.0])
def heat_index(x):
    return np.stack([hi.heat_index(x[0], x[1]), di.discomfort_index(x[0], x[1]), humidex.humidex(x[0], 20.0)])


@cases([25.0, 26.0, 0.2, 50.0])
def wet_bulb_globe(x):
    return wbgt.wet_bulb_globe_temperature(x[0], x[1], x[2], x[3])


@cases([25.0, 50.0, 101325.0])
def humid_air(x):
    return np.stack([
        psychrometrics.humid_ratio_from_db_rh(x[0], x[1], x[2]),
        psychrometrics.dew_point_from_db_rh(x[0], x[1]),
    ])


@cases([25.0, 26.0, 50.0, 1.5])
def physiologic_temperature(x):
    return pet.physiologic_equivalent_temperature(x[0], x[1], x[3], x[2], 1.2, 0.9)["pet"]


@cases([20.0, 26.0])
def adaptive_comfort(x):
    return adaptive.adaptive_comfort_ashrae55(x[0], x[1])["deg_comf"]


@cases([-5.0, 5.0])
def wind_chill(x):
    return np.stack([wc.windchill_temp(x[0], x[1]), at.apparent_temperature(x[0], 50.0, x[1])])
