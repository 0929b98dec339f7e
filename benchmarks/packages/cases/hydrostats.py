"""Forecasts by ensembles."""

import numpy as np
from hydrostats import ens_metrics

from benchmarks.packages.cases import Cases

PACKAGE = "hydrostats"
cases = Cases()
OBSERVED = np.array([4.7, 6.0, 10.0, 3.1])
ENSEMBLE = [[5.3, 4.2, 4.4], [6.1, 7.0, 5.2], [8.4, 9.0, 11.5], [3.5, 2.0, 2.8]]


@cases(ENSEMBLE)
def mean_error(x):
    return np.array([ens_metrics.ens_me(OBSERVED, x), ens_metrics.ens_mae(OBSERVED, x)])


@cases(ENSEMBLE)
def squared_error(x):
    return np.array([ens_metrics.ens_mse(OBSERVED, x), ens_metrics.ens_rmse(OBSERVED, x)])


@cases(ENSEMBLE)
def correlation(x):
    return ens_metrics.ens_pearson_r(OBSERVED, x)


@cases(ENSEMBLE)
def ranked_probability_score(x):
    return ens_metrics.ens_crps(OBSERVED, x, llvm=False)["crpsMean"]


@cases(ENSEMBLE)
def score_of_kernels(x):
    return ens_metrics.crps_kernel(OBSERVED, x)["crps"]


@cases(ENSEMBLE)
def score_by_hersbach(x):
    return ens_metrics.crps_hersbach(OBSERVED, x)["crps"]
