"""Gaussian mixtures and their conditional distributions."""

import numpy as np
from gmr import GMM, MVN

from benchmarks.packages.cases import Cases

PACKAGE = "gmr"
cases = Cases()
MEANS = np.array([[0.0, 0.0], [2.0, 1.0]])
COVARIANCES = np.array([[[1.0, 0.3], [0.3, 0.8]], [[0.6, -0.2], [-0.2, 0.9]]])


@cases([0.4, 0.7])
def density(x):
    return GMM(2, [0.4, 0.6], MEANS, COVARIANCES).to_probability_density(x[np.newaxis])[0]


@cases([0.4, 0.7])
def responsibilities(x):
    return GMM(2, [0.4, 0.6], MEANS, COVARIANCES).to_responsibilities(x[np.newaxis])


@cases(0.4)
def prediction(x):
    return GMM(2, [0.4, 0.6], MEANS, COVARIANCES).predict(np.array([0]), np.array([[x]]))


@cases([0.1, 0.2])
def density_of_mean(mean):
    return MVN(mean, COVARIANCES[0]).to_probability_density(np.array([[0.5, 0.1], [1.0, 0.3]]))


@cases([1.0, 0.3, 0.8])
def conditional(c):
    covariance = np.array([[c[0], c[1]], [c[1], c[2]]])
    conditioned = MVN(np.array([0.1, 0.2]), covariance).condition(np.array([0]), np.array([0.7]))
    return np.array([conditioned.mean[0], conditioned.covariance[0, 0]])


@cases([[0.1, 0.2], [2.0, 1.0]])
def moments(means):
    mvn = GMM(2, [0.4, 0.6], means, COVARIANCES).to_mvn()
    return np.concatenate([mvn.mean, mvn.covariance.ravel()])
