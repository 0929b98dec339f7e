"""Test functions of optimisation with several objectives."""

from platypus import DTLZ2, ZDT1, Solution
from platypus.problems import CF1, UF1

from benchmarks.packages.cases import Cases

PACKAGE = "Platypus-Opt"
cases = Cases()


def objectives(problem, x):
    solution = Solution(problem)
    solution.variables = list(x)
    solution.evaluate()
    return list(solution.objectives)


@cases([0.5, 0.7, 0.3])
def zdt1(x):
    problem = ZDT1()
    problem.nvars = 3
    return objectives(problem, x)


@cases([0.5, 0.7, 0.3, 0.2, 0.1, 0.6, 0.4, 0.8, 0.9, 0.35, 0.15])
def dtlz2(x):
    return objectives(DTLZ2(), x)


@cases([0.5, 0.7, 0.3, 0.2])
def uf1(x):
    return objectives(UF1(4), x)


@cases([0.5, 0.7, 0.3, 0.2])
def cf1(x):
    return objectives(CF1(4), x)
