"""Geothermal boreholes."""

import numpy as np
import pygfunction as gt

from benchmarks.packages.cases import Cases

PACKAGE = "pygfunction"
cases = Cases()


@cases([0.3, 0.02, 0.001, 998.0, 4180.0])
def film_coefficient(x):
    return gt.pipes.convective_heat_transfer_coefficient_circular_pipe(x[0], x[1], x[2], x[3], 0.6, x[4], 1e-6)


@cases([0.02, 0.025, 0.4])
def wall_resistance(x):
    return gt.pipes.conduction_thermal_resistance_circular_pipe(x[0], x[1], x[2])


@cases([0.3, 0.02])
def friction_factor(x):
    return gt.pipes.fluid_friction_factor_circular_pipe(x[0], x[1], 0.001, 998.0, 1e-6)


@cases([0.05, 0.02, 0.075, 2.0, 1.5])
def borehole_resistances(x):
    pos = [(x[0] - 0.0, 0.0), (-x[0], 0.0)]
    return gt.pipes.thermal_resistances(pos, x[1], x[2], x[3], x[4], 0.1, J=2)[0]


@cases(35.0)
def water(temperature):
    fluid = gt.media.Fluid("Water", 0.0, T=temperature)
    return np.stack([fluid.rho, fluid.mu, fluid.cp])


@cases([100.0, 4.0, 1e-6])
def finite_line_source(x):
    borehole = gt.boreholes.Borehole(x[0], x[1], 0.075, 0.0, 0.0)
    return gt.heat_transfer.finite_line_source(1e7, x[2], borehole, borehole)
