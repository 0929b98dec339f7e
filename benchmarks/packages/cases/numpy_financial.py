"""Finance, in NumPy."""

import numpy_financial as npf

from benchmarks.packages.cases import Cases

PACKAGE = "numpy-financial"
cases = Cases()


@cases([-100.0, 30.0, 50.0, 60.0])
def net_present_value(values):
    return npf.npv(0.1, values)


@cases(0.1)
def net_present_value_of_rate(rate):
    return npf.npv(rate, [-100.0, 30.0, 50.0, 60.0])


@cases([0.05, 1000.0])
def payment(x):
    return npf.pmt(x[0], 10, x[1])


@cases([0.05, 10.0, -100.0, 1000.0])
def future_value(x):
    return npf.fv(x[0], x[1], x[2], x[3])


@cases([-100.0, 30.0, 50.0, 60.0])
def rate_of_return(values):
    return npf.irr(values)
