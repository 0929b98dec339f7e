"""Wakes of wind farms; written for autograd and plain NumPy."""

import numpy as np
from py_wake.deficit_models.gaussian import BastankhahGaussianDeficit
from py_wake.deficit_models.noj import NOJDeficit
from py_wake.site import UniformSite
from py_wake.superposition_models import SquaredSum
from py_wake.wind_farm_models import PropagateDownwind
from py_wake.wind_turbines import WindTurbine
from py_wake.wind_turbines.generic_wind_turbines import GenericWindTurbine
from py_wake.wind_turbines.power_ct_functions import PowerCtTabular

from benchmarks.packages.cases import Cases

PACKAGE = "py_wake"
cases = Cases()

SITE = UniformSite(p_wd=[1.0], ti=0.06, ws=9.0)
U = np.array([3.0, 6.0, 9.0, 12.0, 25.0])
POWER, THRUST = np.array([0.0, 4e5, 1.2e6, 2e6, 2e6]), np.array([0.8, 0.8, 0.8, 0.5, 0.1])
TURBINE = WindTurbine("table", 80.0, 70.0, PowerCtTabular(U, POWER, "W", THRUST))


def power(model, x, y):
    return model(x, y, wd=[270.0], ws=[9.0]).Power.values[:, 0, 0]


@cases([0.0, 600.0, 40.0])
def gaussian_wake(x):
    model = PropagateDownwind(SITE, TURBINE, BastankhahGaussianDeficit(), superpositionModel=SquaredSum())
    return power(model, np.stack([x[0], x[1]]), np.stack([0.0 * x[2], x[2]]))


@cases([0.0, 600.0, 40.0])
def top_hat_wake(x):
    model = PropagateDownwind(SITE, TURBINE, NOJDeficit(), superpositionModel=SquaredSum())
    return model.aep(np.stack([x[0], x[1]]), np.stack([0.0 * x[2], x[2]]), wd=[270.0], ws=[9.0])


@cases([7.5, 10.0])
def power_of_speed(speeds):
    return TURBINE.power(speeds)


@cases([7.5, 10.0])
def thrust_of_generic_turbine(speeds):
    return GenericWindTurbine("G", 80.0, 70.0, power_norm=2000).ct(speeds)
