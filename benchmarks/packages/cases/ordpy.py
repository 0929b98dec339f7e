"""Permutation entropy."""

import numpy as np
import ordpy

from benchmarks.packages.cases import Cases

PACKAGE = "ordpy"
cases = Cases()
SERIES = np.sin(np.arange(16.0) ** 1.3) + 0.1 * np.cos(7.0 * np.arange(16.0))
P = [0.1, 0.2, 0.05, 0.3, 0.25, 0.1]


@cases(SERIES)
def weighted_entropy(x):
    return ordpy.weighted_permutation_entropy(x, dx=3)


@cases(P)
def entropy_of_probabilities(p):
    return ordpy.permutation_entropy(p, dx=3, probs=True)


@cases(P)
def complexity(p):
    return np.array(ordpy.complexity_entropy(p, dx=3, probs=True))


@cases([*P, 1.7])
def renyi(x):
    return ordpy.renyi_entropy(x[:6], alpha=x[6], dx=3, probs=True)


@cases(P)
def tsallis(p):
    return np.array(ordpy.tsallis_complexity_entropy(p, q=1.5, dx=3, probs=True))


@cases([0.3, 0.15, 0.05, 0.2, 0.18, 0.12])
def fisher_information(p):
    return np.array(ordpy.fisher_shannon(p, dx=3, probs=True))
