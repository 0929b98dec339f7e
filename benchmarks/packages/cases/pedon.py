"""Soil physics: water retention and hydraulic conductivity."""

import numpy as np
import pedon

from benchmarks.packages.cases import Cases

PACKAGE = "pedon"
cases = Cases()
HEADS = np.array([1.0, 10.0, 60.0, 300.0, 2000.0])


@cases([25.0, 0.05, 0.43, 0.03, 1.8])
def van_genuchten(p):
    return pedon.Genuchten(*p).theta(HEADS)


@cases([25.0, 0.05, 0.43, 0.03, 1.8, 0.5])
def conductivity_of_van_genuchten(p):
    return np.log10(pedon.Genuchten(*p).k(HEADS))


@cases([20.0, 0.05, 0.43, 8.0, 1.2])
def brooks_and_corey(p):
    soil = pedon.Brooks(*p)
    return np.concatenate([soil.theta(HEADS), soil.k(HEADS)])


@cases([25.0, 0.05, 0.43, 60.0, 1.1])
def kosugi(p):
    soil = pedon.Kosugi(*p)
    return np.concatenate([soil.theta(HEADS), soil.k(HEADS)])


@cases([25.0, 0.45, 30.0, 1.6, 0.8])
def fredlund_and_xing(p):
    return pedon.Fredlund(*p).theta(HEADS)


@cases([25.0, 0.05, 0.43, 0.03, 1.8, 6.0])
def panday(p):
    soil = pedon.Panday(*p)
    return np.concatenate([soil.theta(HEADS), soil.k(HEADS)])


@cases([10.0, 0.5, 0.38, 0.08, 0.02, 1.9])
def brunswick(p):
    soil = pedon.Brunswick(*p)
    return np.concatenate([soil.theta(HEADS), soil.k(HEADS)])


@cases([40.0, 25.0, 1.4, 2.0])
def pedotransfer(x):
    soil = pedon.SoilSample(sand_p=x[0], clay_p=x[1], rho=x[2], om_p=x[3], silt_p=100 - x[0] - x[1]).wosten()
    return np.array([soil.theta_s, soil.alpha, soil.n, soil.k_s])
