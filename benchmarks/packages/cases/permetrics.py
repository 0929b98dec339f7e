"""Metrics of regressions."""

import numpy as np
from permetrics import RegressionMetric

from benchmarks.packages.cases import Cases

PACKAGE = "permetrics"
cases = Cases()
OBSERVED = np.array([3.0, 0.5, 2.0, 7.0])
PREDICTED = [2.5, 0.7, 2.2, 8.0]


@cases(PREDICTED)
def squares(x):
    metric = RegressionMetric(OBSERVED, x)
    return np.array([metric.root_mean_squared_error(), metric.coefficient_of_determination()])


@cases(PREDICTED)
def efficiencies(x):
    metric = RegressionMetric(OBSERVED, x)
    return np.array([metric.nash_sutcliffe_efficiency(), metric.kling_gupta_efficiency(), metric.willmott_index()])


@cases(PREDICTED)
def deviance(x):
    metric = RegressionMetric(OBSERVED, x)
    return np.array([metric.mean_absolute_percentage_error(), metric.relative_absolute_error()])
