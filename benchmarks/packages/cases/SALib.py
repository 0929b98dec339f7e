"""Test functions of sensitivity analysis."""

import numpy as np
from SALib.test_functions import Ishigami, Sobol_G, lake_problem, oakley2004

from benchmarks.packages.cases import Cases

PACKAGE = "SALib"
cases = Cases()
WEIGHTS = np.linspace(-1, 1, 12).reshape(4, 3), np.array([[0.2, 0.1, 0.3], [0.0, 0.4, 0.1], [0.5, 0.1, 0.2]])


@cases([[0.3, -1.2, 2.0], [1.0, 0.5, -0.7]])
def ishigami(x):
    return Ishigami.evaluate(x)


@cases([[0.3, 0.2, 0.8, 0.1]])
def sobol_g(x):
    return Sobol_G.evaluate(x, a=np.array([0.0, 1.0, 4.5, 9.0]))


@cases([0.1, 0.4, 2.0, 0.02])
def lake(x):
    return lake_problem.lake_problem(*x[:3], 0.42, x[3])


@cases([[0.3, 0.4, 0.5]])
def oakley(x):
    return oakley2004.evaluate(x, WEIGHTS[0][:3], WEIGHTS[1])
