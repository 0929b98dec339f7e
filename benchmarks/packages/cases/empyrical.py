"""Performance and risk of investments."""

import empyrical

from benchmarks.packages.cases import Cases

PACKAGE = "empyrical-reloaded"
cases = Cases()


RETURNS = [0.01, -0.02, 0.015, 0.005, -0.003, 0.012]


@cases(RETURNS)
def cumulative_returns(x):
    return empyrical.cum_returns(x)


@cases(RETURNS)
def sharpe_ratio(x):
    return empyrical.sharpe_ratio(x)


@cases(RETURNS)
def annual_volatility(x):
    return empyrical.annual_volatility(x)


@cases(RETURNS)
def max_drawdown(x):
    return empyrical.max_drawdown(x)


@cases(RETURNS)
def annual_return(x):
    return empyrical.annual_return(x)


@cases(RETURNS)
def sortino_ratio(x):
    return empyrical.sortino_ratio(x)
