"""Kalman filters."""

import numpy as np
from filterpy.common import Q_discrete_white_noise
from filterpy.kalman import KalmanFilter, MerweScaledSigmaPoints, UnscentedKalmanFilter, predict, update
from filterpy.stats import gaussian, mahalanobis

from benchmarks.packages.cases import Cases

PACKAGE = "filterpy"
cases = Cases()


@cases([0.3, 0.1])
def log_likelihood(x):
    kf = KalmanFilter(dim_x=2, dim_z=1)
    kf.x = np.array([0.0, 1.0])
    kf.F = np.array([[1.0, 0.5], [0.0, 1.0]])
    kf.H = np.array([[1.0, 0.0]])
    kf.Q = x[0] * np.eye(2)
    kf.R = np.array([[x[1]]])
    total = 0.0
    for z in (0.4, 1.1, 1.4):
        kf.predict()
        kf.update(z)
        total += kf.log_likelihood
    return total


@cases([0.3, 0.1, 1.2])
def predict_and_update(x):
    mean, covariance = predict(x[:2], np.eye(2), F=np.array([[1.0, 0.5], [0.0, 1.0]]), Q=0.1 * np.eye(2))
    return update(mean, covariance, z=x[2], R=0.5, H=np.array([[1.0, 0.0]]))[0]


@cases([0.3, 0.5, 1.2])
def density_of_gaussian(x):
    return gaussian(x[0], x[1], x[2])


@cases([0.3, 0.5])
def mahalanobis_distance(x):
    return mahalanobis(x, np.array([0.0, 1.0]), np.array([[2.0, 0.1], [0.1, 1.0]]))


@cases([0.5, 0.2])
def white_noise(x):
    return Q_discrete_white_noise(dim=2, dt=x[0], var=x[1])


@cases([0.1, 0.4])
def unscented_filter(x):
    points = MerweScaledSigmaPoints(2, alpha=0.1, beta=2.0, kappa=1.0)
    ukf = UnscentedKalmanFilter(
        dim_x=2, dim_z=1, dt=0.1, hx=lambda s: s[:1], fx=lambda s, dt: np.array([s[0] + dt * s[1], s[1]]), points=points
    )
    ukf.x = x
    ukf.predict()
    ukf.update(np.array([0.2]))
    return ukf.x
