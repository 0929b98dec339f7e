"""Models of choices among items: likelihoods, probabilities and spectral estimates."""

import choix
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "choix"
cases = Cases()
PAIRS = [(0, 1), (1, 2), (0, 2), (2, 0), (3, 1), (1, 0), (2, 3), (3, 0)]
RANKINGS = [(0, 2, 1), (2, 3, 0), (1, 3, 2)]
TOP = [(0, [1, 2]), (3, [0, 2]), (2, [1, 3])]
THETA = [0.4, -0.2, 0.1, -0.3]


@cases(THETA)
def likelihood_of_pairs(theta):
    return choix.log_likelihood_pairwise(PAIRS, theta)


@cases(THETA)
def likelihood_of_rankings(theta):
    return choix.log_likelihood_rankings(RANKINGS, theta)


@cases(THETA)
def likelihood_of_top_items(theta):
    return choix.log_likelihood_top1(TOP, theta)


@cases(THETA)
def probabilities(theta):
    return choix.probabilities([0, 2, 3], theta)


@cases([0.2, 0.3, 0.1, 0.4])
def log_of_weights(weights):
    return choix.utils.log_transform(weights)


@cases(THETA)
def penalised_objective(theta):
    functions = choix.opt.PairwiseFcts(PAIRS, 0.1)
    return np.array([functions.objective(theta), *functions.gradient(theta)])


@cases([0.1])
def estimate_by_spectrum(alpha):
    return choix.lsr_pairwise(4, PAIRS, alpha=alpha[0])


@cases([0.5])
def estimate_by_likelihood(alpha):
    return choix.opt_pairwise(4, PAIRS, alpha=alpha[0], tol=1e-12)


@cases([[0.0, 3.0, 1.0], [2.0, 0.0, 4.0], [2.0, 1.0, 0.0]])
def estimate_of_counts(counts):
    return choix.lsr_pairwise_dense(counts, alpha=0.1)
