"""Options; written with functions of `math`."""

from py_vollib.black_scholes import black_scholes
from py_vollib.black_scholes.greeks.analytical import delta
from py_vollib.black_scholes.implied_volatility import implied_volatility

from benchmarks.packages.cases import Cases

PACKAGE = "py_vollib"
cases = Cases()


@cases([100.0, 90.0, 0.5, 0.01, 0.2])
def call(x):
    return black_scholes("c", x[0], x[1], x[2], x[3], x[4])


@cases([100.0, 90.0, 0.5, 0.01, 0.2])
def delta_of_call(x):
    return delta("c", x[0], x[1], x[2], x[3], x[4])


@cases(12.0)
def volatility(price):
    return implied_volatility(price, 100.0, 90.0, 0.5, 0.01, "c")
