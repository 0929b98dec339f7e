"""Astronomy."""

import numpy as np
from PyAstronomy import pyasl

from benchmarks.packages.cases import Cases

PACKAGE = "PyAstronomy"
cases = Cases()


@cases([1.3, 0.3, 0.5, 0.4, 1.2])
def position_on_orbit(x):
    orbit = pyasl.KeplerEllipse(a=x[0], per=2.0, e=x[1], Omega=x[2] * 100, i=x[3] * 100, w=30.0)
    return orbit.xyzPos(x[4])


@cases([1.2, 0.3])
def eccentric_anomaly(x):
    return pyasl.MarkleyKESolver().getE(x[0], x[1])


@cases([5000.0, 6500.0])
def wavelength_in_vacuum(x):
    return pyasl.airtovac2(x)


@cases([5778.0, 5e-7])
def planck(x):
    return pyasl.planck(x[0], lam=x[1])


@cases([10.0, 20.0, 11.0, 22.0])
def angular_distance(x):
    return pyasl.getAngDist(x[0], x[1], x[2], x[3])


@cases([0.5, 0.1, 0.8])
def phase_function(x):
    return pyasl.lambertPhaseFunction(x[0])


@cases([2.0, 0.5, 1.3])
def gaussian(x):
    from PyAstronomy.funcFit import GaussFit1d

    model = GaussFit1d()
    model["A"], model["mu"], model["sig"] = x[0], x[1], x[2]
    return model.evaluate(np.array([0.0, 1.0, 2.0]))
