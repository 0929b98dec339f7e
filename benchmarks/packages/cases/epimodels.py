"""Models of epidemics."""

import numpy as np
from epimodels.continuous import models
from scipy.integrate import solve_ivp

from benchmarks.packages.cases import Cases

PACKAGE = "epimodels"
cases = Cases()


@cases([0.8, 0.3])
def rates_of_sir(p):
    return np.array(models.SIR()._model(0.0, [900.0, 90.0, 10.0], {"beta": p[0], "gamma": p[1], "N": 1000.0}))


@cases([0.8, 0.3, 0.2])
def rates_of_seir(p):
    parameters = {"beta": p[0], "gamma": p[1], "epsilon": p[2], "N": 1000.0}
    return np.array(models.SEIR()._model(0.0, [900.0, 50.0, 40.0, 10.0], parameters))


@cases([0.8, 0.3])
def epidemic_by_solve_ivp(p):
    model, parameters = models.SIR(), {"beta": p[0], "gamma": p[1], "N": 1000.0}
    solution = solve_ivp(lambda t, y: model._model(t, y, parameters), (0, 20), [990.0, 10.0, 0.0], rtol=1e-9, atol=1e-7)
    return solution.y[:, -1]


@cases([0.8, 0.3])
def epidemic_by_package(p):
    model = models.SIR()
    model([990.0, 10.0, 0.0], [0, 20], 1000.0, {"beta": p[0], "gamma": p[1]}, rtol=1e-9, atol=1e-7)
    return model.traces["I"][-1]
