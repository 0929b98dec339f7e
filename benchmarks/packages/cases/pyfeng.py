"""Prices of options in many models."""

import numpy as np
import pyfeng

from benchmarks.packages.cases import Cases

PACKAGE = "pyfeng"
cases = Cases()
STRIKES = np.array([80.0, 100.0, 120.0])


@cases([100.0, 0.2, 1.2])
def black_scholes(x):
    return pyfeng.Bsm(x[1], intr=0.02).price(STRIKES, x[0], x[2])


@cases([100.0, 20.0])
def normal_greeks(x):
    model = pyfeng.Norm(x[1])
    return np.concatenate([model.delta(STRIKES, x[0], 1.0), model.gamma(STRIKES, x[0], 1.0)])


@cases([2.0, 0.4, -0.25])
def sabr_volatility(x):
    return pyfeng.SabrHagan2002(x[0], vov=x[1], rho=x[2], beta=0.5).vol_for_price(STRIKES, 100.0, 1.2)


@cases([0.04, 0.5, -0.6])
def heston(x):
    return pyfeng.HestonFft(x[0], vov=x[1], rho=x[2], mr=1.5, theta=0.05).price(STRIKES, 100.0, 1.0)


@cases([0.2, 0.3])
def spread(x):
    model = pyfeng.BsmSpreadKirk(x, rho=0.5)
    return model.price(np.array([5.0, 10.0]), np.array([100.0, 120.0]), 1.0)


@cases([7.965567, 15.0])
def implied_volatility(x):
    return pyfeng.Bsm(0.2).impvol(x, np.array([100.0, 90.0]), 100.0, 1.0)


@cases([0.4, 100.0])
def elasticity(x):
    return pyfeng.Cev(2.0, beta=x[0]).price(STRIKES, x[1], 1.0)


@cases([0.4, 0.3])
def volatility_of_svi(x):
    return pyfeng.Svi(0.04, vov=x[0], rho=-0.3, smooth=x[1], shift=0.01).vol_for_price(STRIKES, 100.0, 1.0)
