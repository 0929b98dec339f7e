"""Prices of options."""

import mibian
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "mibian"
cases = Cases()


@cases([100.0, 105.0, 2.0, 90.0, 25.0])
def black_scholes(x):
    option = mibian.BS([x[0], x[1], x[2], x[3]], volatility=x[4])
    return np.array([option.callPrice, option.putPrice, option.callDelta, option.vega, option.gamma])


@cases([1.45, 1.4, 1.0, 2.0, 30.0, 20.0])
def garman_kohlhagen(x):
    option = mibian.GK(list(x[:5]), volatility=x[5])
    return np.array([option.callPrice, option.putPrice, option.callRhoD])


@cases([52.0, 50.0, 1.0, 1.0, 30.0, 20.0])
def merton(x):
    option = mibian.Me(list(x[:5]), volatility=x[5])
    return np.array([option.callPrice, option.putTheta])
