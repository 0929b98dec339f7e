"""Flow of oil, gas and water."""

import numpy as np
import pvtlib
from pvtlib import fluid_mechanics, thermodynamics

from benchmarks.packages.cases import Cases

PACKAGE = "pvtlib"
cases = Cases()


@cases([300.0, 2.0, 0.3])
def numbers(x):
    density, velocity, diameter = x
    return np.array([
        fluid_mechanics.reynolds_number(density, velocity, diameter, 1e-3),
        fluid_mechanics.densimetric_froude_number(velocity, diameter, density, 1000.0),
        fluid_mechanics.ohnesorge_number(1e-3, density, diameter, 0.03),
    ])  # fmt: skip


@cases([0.03, 850.0, 0.2])
def dispersion_velocity(x):
    return fluid_mechanics.critical_velocity_for_uniform_wio_dispersion_horizontal(x[0], x[1], 1000.0, 0.01, x[2])


@cases([300.0, 18.0, 60.0])
def gas_viscosity(x):
    return thermodynamics.natural_gas_viscosity_Lee_et_al(x[0], x[1], x[2])


@cases(1.3)
def interpolation(x):
    return pvtlib.utilities.linear_interpolation(x, [0.0, 1.0, 2.0], [3.0, 5.0, 4.0])
