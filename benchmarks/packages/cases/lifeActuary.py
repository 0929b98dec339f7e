"""Life tables and annuities."""

import numpy as np
from lifeActuary import annuities, annuities_certain, mortality_table

from benchmarks.packages.cases import Cases

PACKAGE = "lifeActuary"
cases = Cases()


def gompertz(p):
    ages = np.arange(50, 100)
    return [50, *(1 - np.exp(-p[0] * np.exp(p[1] * (ages - 50))))]


@cases([2.5, 1.0])
def annuity_of_interest(x):
    table = mortality_table.MortalityTable(mt=gompertz([0.005, 0.09]))
    return annuities.naax(table, 60, 10, i=x[0], g=x[1])


@cases([0.005, 0.09])
def annuity_of_mortality(p):
    table = mortality_table.MortalityTable(mt=gompertz(p))
    return annuities.aax(table, 60, i=2.0)


@cases(2.5)
def endowment(rate):
    table = mortality_table.MortalityTable(mt=gompertz([0.005, 0.09]))
    return annuities.nEx(table, 60, i=rate, n=15)


@cases([0.005, 0.09])
def survival(p):
    table = mortality_table.MortalityTable(mt=gompertz(p))
    return np.array([table.npx(60, 5), table.npx(60, 2.5, method="cfm"), table.exn(60, 10)])


@cases(3.0)
def annuity_certain(rate):
    return annuities_certain.Annuities_Certain(interest_rate=rate, m=1).an(10)
