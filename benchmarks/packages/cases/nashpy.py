"""Games."""

import nashpy
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "nashpy"
cases = Cases()
game = nashpy.Game(np.array([[1.0, -1.0], [-1.0, 1.5]]))


@cases([0.2, 0.8, 0.6, 0.4])
def utilities(x):
    return game[x[:2], x[2:]]


@cases([1.0, -1.0, -1.0, 1.5])
def utilities_of_payoffs(a):
    return nashpy.Game(a.reshape(2, 2))[np.array([0.2, 0.8]), np.array([0.6, 0.4])]


@cases([0.3, 0.7], rtol=1e-4)  # odeint: differences of its values are off by 3e-5, against tight tolerances
def replicator(x):
    return game.replicator_dynamics(y0=x, timepoints=np.linspace(0.0, 1.0, 3))[-1]
