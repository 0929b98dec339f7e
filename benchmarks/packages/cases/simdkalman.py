"""Kalman filters of many series."""

import numpy as np
import simdkalman
from simdkalman import primitives

from benchmarks.packages.cases import Cases

PACKAGE = "simdkalman"
cases = Cases()


DATA = np.array([[0.4, 1.1, 1.4, 2.2], [0.1, np.nan, 0.9, 1.2]])


def of_noise(x):
    return simdkalman.KalmanFilter(
        state_transition=np.array([[1.0, 0.5], [0.0, 1.0]]),
        process_noise=np.diag([x[0], 0.01]),
        observation_model=np.array([[1.0, 0.0]]),
        observation_noise=x[1],
    )


@cases([0.3, 0.1])
def smoothed(x):
    return of_noise(x).smooth(DATA, initial_value=[0.0, 0.0], initial_covariance=np.eye(2)).states.mean


@cases([0.3, 0.1])
def predicted(x):
    return of_noise(x).predict(DATA, 3, initial_value=[0.0, 0.0], initial_covariance=np.eye(2)).observations.mean


@cases([0.3, 0.1, 1.2])
def update(x):
    mean, _ = primitives.update(
        np.array([[0.2], [0.3]]), x[0] * np.eye(2), np.array([[1.0, 0.0]]), np.array([[x[1]]]), np.array([[x[2]]])
    )
    return mean


@cases([0.3, 0.1, 1.2])
def step(x):
    _, covariance = primitives.predict(x[:2], np.eye(2), np.array([[1.0, x[2]], [0.0, 1.0]]), 0.1 * np.eye(2))
    return covariance
