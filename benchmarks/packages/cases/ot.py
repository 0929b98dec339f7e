"""Optimal transport."""

import numpy as np
import ot

from benchmarks.packages.cases import Cases

PACKAGE = "POT"
cases = Cases()
RNG = np.random.default_rng(0)
SOURCE, TARGET = RNG.normal(size=(5, 2)), RNG.normal(size=(4, 2))
WEIGHTS = np.ones(5) / 5, np.ones(4) / 4


@cases([0.1, 0.2, 2.0, 0.3, 1.0])
def between_gaussians(x):
    covariance = np.array([[x[2], x[3]], [x[3], x[4]]])
    return ot.gaussian.bures_wasserstein_distance(x[:2], np.zeros(2), covariance, np.array([[2.0, 0.3], [0.3, 1.0]]))


@cases(SOURCE)
def with_entropy(x):
    return ot.sinkhorn2(*WEIGHTS, ot.dist(x, TARGET), 1.0)


@cases(SOURCE)
def by_logarithms(x):
    return ot.sinkhorn2(*WEIGHTS, ot.dist(x, TARGET), 1.0, method="sinkhorn_log")


@cases(SOURCE)
def exact(x):
    return ot.emd2(*WEIGHTS, ot.dist(x, TARGET))


@cases([0.15, 0.5, 0.9, -1.0, 0.2])
def on_a_line(x):
    return ot.wasserstein_1d(x, np.array([0.3, -0.4, 1.0, 2.0, 0.1]), p=2)


@cases(SOURCE)
def sliced(x):
    return ot.sliced_wasserstein_distance(x, TARGET, n_projections=10, seed=1)


@cases(SOURCE)
def unbalanced(x):
    return ot.unbalanced.sinkhorn_unbalanced2(*WEIGHTS, ot.dist(x, TARGET), 1.0, 1.0)
