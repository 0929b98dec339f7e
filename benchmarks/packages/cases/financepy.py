"""Derivatives of finance, with functions compiled by Numba."""

from financepy.models.black import Black
from financepy.models.black_scholes_analytic import european_value
from financepy.models.sabr import vol_function_sabr
from financepy.utils.global_types import OptionTypes
from financepy.utils.math import normcdf, normpdf

from benchmarks.packages.cases import Cases

PACKAGE = "financepy"
cases = Cases()


@cases(0.4)
def normal_distribution(x):
    return [normcdf(x), normpdf(x)]


@cases([0.03, 0.5, -0.2, 0.4])
def sabr_volatility(x):
    return vol_function_sabr(x, 0.025, 0.02, 1.5)


@cases([100.0, 1.0, 95.0, 0.05, 0.02, 0.3])
def call(x):
    return european_value(x[0], x[1], x[2], x[3], x[4], x[5], OptionTypes.EUROPEAN_CALL.value)


@cases([100.0, 95.0, 1.0, 0.05, 0.3])
def call_on_forward(x):
    return Black(x[4]).value(x[0], x[1], x[2], 0.95, OptionTypes.EUROPEAN_CALL)
