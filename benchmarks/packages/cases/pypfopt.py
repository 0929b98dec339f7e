"""Portfolios: risk, return and optimal weights."""

import numpy as np
from pypfopt import black_litterman, objective_functions, risk_models
from pypfopt.base_optimizer import portfolio_performance

from benchmarks.packages.cases import Cases

PACKAGE = "pyportfolioopt"
cases = Cases()

WEIGHTS = [0.5, 0.3, 0.2]
RETURNS = np.array([0.08, 0.05, 0.11])
COVARIANCE = np.array([[0.04, 0.01, 0.0], [0.01, 0.09, 0.02], [0.0, 0.02, 0.16]])


@cases(WEIGHTS)
def sharpe_ratio(w):
    return objective_functions.sharpe_ratio(w, RETURNS, COVARIANCE, risk_free_rate=0.02)


@cases(WEIGHTS)
def quadratic_utility(w):
    return objective_functions.quadratic_utility(w, RETURNS, COVARIANCE, risk_aversion=2.0)


@cases(WEIGHTS)
def tracking_error(w):
    return objective_functions.ex_ante_tracking_error(w, COVARIANCE, np.full(3, 1 / 3))


@cases(WEIGHTS)
def performance(w):
    return np.stack(portfolio_performance(w, RETURNS, COVARIANCE, risk_free_rate=0.02))


@cases([0.2, 0.3, 0.4])
def covariance_from_correlation(deviations):
    correlation = np.array([[1.0, 0.2, 0.1], [0.2, 1.0, 0.3], [0.1, 0.3, 1.0]])
    return np.asarray(risk_models.corr_to_cov(correlation, deviations))


@cases([0.05, -0.02])
def black_litterman_returns(views):
    picking = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    model = black_litterman.BlackLittermanModel(COVARIANCE, pi=RETURNS.reshape(-1, 1), Q=views, P=picking)
    return np.asarray(model.bl_returns())
