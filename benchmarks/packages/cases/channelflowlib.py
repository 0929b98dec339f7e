"""Uniform and critical flow in open channels; uses `math`."""

import numpy as np
from channelflowlib import critical_flow
from channelflowlib.openchannellib import Circular, IrregularSection, Rectangular

from benchmarks.packages.cases import Cases

PACKAGE = "channelflowlib"
cases = Cases()


@cases([3.0, 2.0, 1.5, 5.0, 0.015])
def critical_flow_in_a_rectangle(x):
    found = critical_flow.solve_critical_flow_rectangular(x[0], x[1], x[2], x[3], x[4])
    return np.array([found["critical_depth"], found["critical_slope"], found["froude_number"]])


@cases([2.0, 1.2, 0.001])
def discharge_of_a_rectangle(x):
    channel = Rectangular(unknown="discharge")
    channel.set_channel_base(x[0])
    channel.set_water_depth(x[1])
    channel.set_channel_slope(x[2])
    channel.set_roughness(0.015)
    channel.analyze()
    return channel.discharge


@cases([1.5, 0.6])
def discharge_of_a_pipe(x):
    pipe = Circular()
    pipe.set_slope(0.002)
    pipe.set_roughness(0.013)
    pipe.set_diameter(x[0])
    pipe.set_water_depth(x[1])
    pipe.calculate_discharge()
    return pipe.discharge


@cases([8.0, 0.002])
def discharge_of_a_river(x):
    river = IrregularSection([(0, 10), (2, 6), (5, 5), (9, 7), (12, 11)])
    river.set_average_rougness(0.03)
    river.set_bed_slope(x[1])
    river.set_water_elevation(x[0])
    river.analyze()
    return river.discharge
