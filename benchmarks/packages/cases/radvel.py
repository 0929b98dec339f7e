"""Radial velocities of stars with planets."""

import numpy as np
import radvel
from radvel import gp, kepler, orbit, utils

from benchmarks.packages.cases import Cases

PACKAGE = "radvel"
cases = Cases()
TIMES = np.linspace(0.0, 30.0, 7)


@cases([10.0, 2.0, 0.3, 0.7, 25.0], step=1e-3)
def velocity(p):
    return kepler.rv_drive(TIMES, p, use_c_kepler_solver=False)


@cases([2.0, 10.0, 0.3], step=1e-3)
def true_anomaly(p):
    return np.cos(orbit.true_anomaly(TIMES, p[0], p[1], p[2]))


@cases([3.0, 10.0, 0.3, 0.7], step=1e-3)
def time_of_periastron(p):
    return orbit.timetrans_to_timeperi(p[0], p[1], p[2], p[3])


@cases([25.0, 10.0, 1.1, 0.3])
def minimum_mass(p):
    return utils.Msini(p[0], p[1], p[2], p[3])


@cases([10.0, 2.0, 0.5, 0.2, 25.0], step=1e-3)
def model_of_parameters(p):
    params = radvel.Parameters(1, basis="per tp e w k")
    for name, value in zip(("per1", "tp1", "e1", "w1", "k1"), p):
        params[name] = radvel.Parameter(value=value)
    params["dvdt"] = radvel.Parameter(value=0.1)
    params["curv"] = radvel.Parameter(value=0.0)
    return radvel.RVModel(params)(TIMES)


@cases([2.0, 5.0, 10.0, 0.5])
def quasi_periodic_kernel(p):
    hyperparameters = {
        name: radvel.Parameter(value=value)
        for name, value in zip(("gp_amp", "gp_explength", "gp_per", "gp_perlength"), p)
    }
    kernel = gp.QuasiPerKernel(hyperparameters)
    kernel.compute_distances(TIMES, TIMES)
    return kernel.compute_covmatrix(0.1)
