"""Wakes of wind farms."""

import numpy as np
from floris import FlorisModel

from benchmarks.packages.cases import Cases

PACKAGE = "floris"
cases = Cases()

MODEL = FlorisModel("defaults")
LAYOUT = {"layout_x": [0.0, 800.0], "layout_y": [0.0, 50.0]}
WIND = {"wind_directions": [270.0], "wind_speeds": [8.0], "turbulence_intensities": [0.06]}


@cases([0.0, 800.0, 50.0])
def farm_power(x):
    MODEL.set(layout_x=np.stack([x[0], x[1]]), layout_y=np.stack([0.0 * x[0], x[2]]), **WIND)
    MODEL.run()
    return MODEL.get_turbine_powers()[0]


@cases(8.0)
def power_of_speed(speed):
    MODEL.set(**LAYOUT, **(WIND | {"wind_speeds": np.stack([speed])}))
    MODEL.run()
    return MODEL.get_farm_power()


@cases([10.0, 0.0])
def yaw(angles):
    MODEL.set(**LAYOUT, **WIND, yaw_angles=angles[None, :])
    MODEL.run()
    return MODEL.get_farm_power()
