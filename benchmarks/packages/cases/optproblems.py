"""Test functions of optimisation."""

import numpy as np
from optproblems import Individual
from optproblems.continuous import Hartman3, Rastrigin, Shekel
from optproblems.dtlz import DTLZ2
from optproblems.wfg import WFG4
from optproblems.zdt import ZDT1

from benchmarks.packages.cases import Cases

PACKAGE = "optproblems"
cases = Cases()


@cases([0.5, 0.7, 0.3])
def hartman(x):
    return Hartman3()(x)


@cases([3.5, 4.2, 3.9, 4.4])
def shekel(x):
    return Shekel(5)(x)


@cases([0.5, 0.7, 0.3])
def rastrigin_of_individual(x):
    individual = Individual(x)
    Rastrigin(3).evaluate(individual)
    return individual.objective_values


@cases([0.5, 0.7, 0.3])
def zdt1(x):
    return np.stack(ZDT1(3)(x))


@cases([0.5, 0.7, 0.3, 0.2])
def dtlz2(x):
    return DTLZ2(2, 4)(x)


@cases([0.5, 0.7, 1.3, 2.2])
def wfg4(x):
    return WFG4(2, 4, 2)(list(x))
