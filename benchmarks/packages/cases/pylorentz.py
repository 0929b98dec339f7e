"""Lorentz vectors."""

import numpy as np
import pylorentz

from benchmarks.packages.cases import Cases

PACKAGE = "pylorentz"
cases = Cases()


@cases([5.0, 1.0, 2.0, 3.0])
def mass_and_rapidity(x):
    momentum = pylorentz.Momentum4(x[0], x[1], x[2], x[3])
    return np.array([momentum.m, momentum.eta, momentum.phi, momentum.p_t])


@cases([0.3, 0.2, 0.5])
def boosted(x):
    return np.array(pylorentz.Position4(2.0, x[0], x[1], 1.0).boost(1.0, 0.5, 0.2, beta=x[2]).components)


@cases([0.5, 0.8, 0.3, 12.0])
def momentum_of_collider_coordinates(x):
    return np.array(pylorentz.Momentum4.m_eta_phi_pt(x[0], x[1], x[2], x[3]).components)


@cases([5.0, 1.0, 2.0, 3.0])
def mass_of_pair(x):
    one, other = pylorentz.Momentum4(x[0], x[1], 0.2, 0.1), pylorentz.Momentum4(6.0, 0.5, x[2], x[3])
    return (one + other).m
