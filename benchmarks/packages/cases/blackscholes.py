"""Prices of options."""

from blackscholes import BinaryCall, Black76Call, BlackScholesCall, BlackScholesPut, BlackScholesStraddleLong

from benchmarks.packages.cases import Cases

PACKAGE = "blackscholes"
cases = Cases()


@cases([100.0, 95.0, 1.0, 0.02, 0.3])
def call(x):
    return BlackScholesCall(S=x[0], K=x[1], T=x[2], r=x[3], sigma=x[4]).price()


@cases([100.0, 95.0, 1.0, 0.02, 0.3])
def greeks_of_put(x):
    put = BlackScholesPut(S=x[0], K=x[1], T=x[2], r=x[3], sigma=x[4])
    return list(put.get_core_greeks().values())


@cases([100.0, 95.0, 1.0, 0.02, 0.3])
def call_on_forward(x):
    return Black76Call(F=x[0], K=x[1], T=x[2], r=x[3], sigma=x[4]).price()


@cases([100.0, 95.0, 1.0, 0.02, 0.3])
def straddle(x):
    return BlackScholesStraddleLong(S=x[0], K=x[1], T=x[2], r=x[3], sigma=x[4]).price()


@cases([100.0, 95.0, 1.0, 0.02, 0.3])
def binary_call(x):
    return BinaryCall(S=x[0], K=x[1], T=x[2], r=x[3], sigma=x[4]).price()
