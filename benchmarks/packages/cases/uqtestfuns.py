"""Test functions of uncertainty quantification."""

import numpy as np
import uqtestfuns

from benchmarks.packages.cases import Cases

PACKAGE = "uqtestfuns"
cases = Cases()


@cases([0.1, 25050.0, 89335.0, 1050.0, 89.5, 760.0, 1400.0, 10950.0])
def borehole(x):
    return uqtestfuns.Borehole()(x.reshape(1, -1))[0]


@cases([0.5, -1.2, 2.0])
def ishigami(x):
    return uqtestfuns.Ishigami()(np.atleast_2d(x))


@cases([100.0, 50.0, 1.0, 2.0, 0.7, 100.0])
def circuit(x):
    return uqtestfuns.OTLCircuit()(x[np.newaxis])


@cases([0.2, 0.4, 0.6])
def sobol_g(x):
    return uqtestfuns.SobolG(input_dimension=3)(np.array([x]))


@cases([0.2, 0.4])
def franke(x):
    return uqtestfuns.Franke1()(x[None, :])
