"""Life insurance: interest, annuities and insurances of a life table."""

import numpy as np
from pylifecontingencies import actuarial, financial
from pylifecontingencies.actuarialtable import ActuarialTable
from pylifecontingencies.interest import InterestRate
from pylifecontingencies.lifetable import LifeTable

from benchmarks.packages.cases import Cases

PACKAGE = "pylifecontingencies"
cases = Cases()
AGES = np.arange(60, 101)
LIVES = np.append(1e5 * np.exp(-0.005 / 0.09 * np.expm1(0.09 * (AGES[:-1] - 60))), 0.0)


@cases(0.03)
def annuity(rate):
    return actuarial.axn(ActuarialTable(LifeTable(LIVES, x_min=60), rate), 60, 10)


@cases(0.03)
def insurance(rate):
    return actuarial.Axn(ActuarialTable(LifeTable(LIVES, x_min=60), rate), 60, 10)


@cases([0.03, 0.05])
def present_value(x):
    return financial.presentValue([100.0, 200.0, 300.0], [1.0, 2.0, 3.0], x[0]) + financial.annuity(x[1], 5)


@cases(0.04)
def duration_and_convexity(rate):
    flows, times = [5.0, 5.0, 105.0], [1.0, 2.0, 3.0]
    return np.array([financial.duration(flows, times, rate), financial.convexity(flows, times, rate)])


@cases(0.04)
def nominal_rates(rate):
    interest = InterestRate(rate)
    return np.array([interest.delta, interest.i_m(12), interest.d_m(4)])
