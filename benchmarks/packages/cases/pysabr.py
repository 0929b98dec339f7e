"""SABR model of volatilities."""

from pysabr import Hagan2002LognormalSABR, Hagan2002NormalSABR, black
from pysabr.models.hagan_2002_lognormal_sabr import lognormal_vol

from benchmarks.packages.cases import Cases

PACKAGE = "pysabr"
cases = Cases()


@cases([0.02, 0.025, 1.5, 0.02, 0.5, -0.2, 0.4])
def volatility(x):
    return lognormal_vol(x[0], x[1], x[2], x[3], x[4], x[5], x[6])


@cases([0.025, 0.0040, -0.2, 0.4])
def volatility_of_model(x):
    sabr = Hagan2002LognormalSABR(f=x[0], shift=0.03, t=1.0, v_atm_n=x[1], beta=0.5, rho=x[2], volvol=x[3])
    return sabr.lognormal_vol(0.02)


@cases([0.025, 0.0040, -0.2, 0.4])
def normal_volatility_of_model(x):
    sabr = Hagan2002NormalSABR(f=x[0], shift=0.03, t=1.0, v_atm_n=x[1], beta=0.5, rho=x[2], volvol=x[3])
    return sabr.normal_vol(0.02)


@cases([0.02, 0.025, 0.3])
def call(x):
    return black.lognormal_call(x[0], x[1], 1.0, x[2], 0.02)
