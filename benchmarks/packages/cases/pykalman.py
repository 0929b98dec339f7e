"""Kalman filters."""

import numpy as np
from pykalman import AdditiveUnscentedKalmanFilter, KalmanFilter

from benchmarks.packages.cases import Cases

PACKAGE = "pykalman"
cases = Cases()


DATA = np.array([[0.4], [1.1], [1.4], [2.2]])


def of_noise(x):
    return KalmanFilter(
        transition_matrices=np.array([[1.0, 0.5], [0.0, 1.0]]),
        observation_matrices=np.array([[1.0, 0.0]]),
        transition_covariance=x[0] * np.eye(2),
        observation_covariance=x[1] * np.eye(1),
        initial_state_mean=np.zeros(2),
        initial_state_covariance=np.eye(2),
    )


@cases([0.3, 0.1])
def log_likelihood(x):
    return of_noise(x).loglikelihood(DATA)


@cases([0.3, 0.1])
def filtered(x):
    return of_noise(x).filter(DATA)[0]


@cases([0.3, 0.1])
def smoothed(x):
    return of_noise(x).smooth(DATA)[0]


@cases([0.3, 0.1])
def updated(x):
    mean, _ = of_noise(x).filter_update(np.zeros(2), np.eye(2), observation=np.array([0.4]))
    return mean


@cases([0.3, 0.1])
def unscented(x):
    ukf = AdditiveUnscentedKalmanFilter(
        lambda s: np.array([s[0] + 0.5 * s[1], 0.9 * s[1] + 0.1 * np.sin(s[0])]),
        lambda s: np.array([s[0]]),
        x[0] * np.eye(2),
        x[1] * np.eye(1),
        np.zeros(2),
        np.eye(2),
    )
    return ukf.filter(DATA)[0][-1]
