"""Orbits: elements, propagation, boundary-value problems, perturbations."""

import numpy as np
from cpslo_orbits import observations, orbitalcore, perturbations, relativemotion

from benchmarks.packages.cases import Cases

PACKAGE = "cpslo-orbits"
cases = Cases()
POSITION = np.array([7000.0, -1200.0, 1500.0])
VELOCITY = np.array([1.5, 7.0, 1.0])
STATE = np.concatenate([POSITION, VELOCITY])


@cases(STATE, step=1e-3)
def elements(state):
    return orbitalcore.statevector_to_coes(state).to_arr()


@cases(STATE, step=1e-3)
def propagation(state):
    return orbitalcore.universal_variable_propagation(state[:3], state[3:], 1200.0)


@cases([5000.0, 10000.0, 2100.0], step=1e-3)
def lambert(r):
    v0, v1 = orbitalcore.lambert_problem_solver(r, np.array([-14600.0, 2500.0, 7000.0]), 3600.0)
    return np.concatenate([v0, v1])


@cases([0.1, 0.2, -0.1, 1e-3])
def relative_motion(x):
    position, velocity = relativemotion.clohessy_wiltshire_relmot(x[:3], np.array([0.0, 1e-3, 2e-3]), x[3], 600.0)
    return np.concatenate([position, velocity])


@cases(STATE, step=1e-3)
def two_body(state):
    frame = orbitalcore.solve_two_body(state, [0.0, 1200.0])
    return frame.RX.to_numpy()[-1]


@cases([1.5, 0.8], step=1e-3)
def direction(x):
    return observations.ra_dec_to_vec(x[0], x[1])


@cases(POSITION, step=1e-3)
def gibbs(r):
    return observations.gibbs(r, np.array([6700.0, 900.0, 1650.0]), np.array([5500.0, 3500.0, 1600.0]))


@cases(2459000.5, step=1e-7)
def sun(date):
    return perturbations.solar_position(date)
