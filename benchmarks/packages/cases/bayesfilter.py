"""Kalman filters and smoothers."""

import numpy as np
from bayesfilter.distributions import Gaussian
from bayesfilter.filtering import BayesianFilter
from bayesfilter.model import StateTransitionModel
from bayesfilter.observation import Observation
from bayesfilter.smoothing import RTS
from bayesfilter.unscented import propagate_gaussian

from benchmarks.packages.cases import Cases

PACKAGE = "bayesfilter"
cases = Cases()


def moved(state, dt):
    return np.array([state[0] + dt * state[1], state[1] - 0.1 * dt * np.sin(state[0])])


def jacobian(state, dt):
    return np.array([[1.0, dt], [-0.1 * dt * np.cos(state[0]), 1.0]])


def filtered(x, use_jacobian):
    model = StateTransitionModel(moved, x[0] * np.eye(2), jacobian)
    filters = BayesianFilter(model, Gaussian(x[2:], np.eye(2)))
    observations = [
        Observation(np.array([value]), np.array([[x[1]]]), lambda s: s[:1], lambda s: np.array([[1.0, 0.0]]))
        for value in (0.4, 0.9, 1.1)
    ]
    return filters, filters.run_synchronous(observations, [0.5, 1.0, 1.5], use_jacobian=use_jacobian)


@cases([0.1, 0.2, 0.3, 0.8])
def extended_filter(x):
    states = filtered(x, True)[1]
    return np.append(states[-1].mean(), states[-1].covariance())


@cases([0.1, 0.2, 0.3, 0.8], rtol=1e-4)  # weights of 1e6 amplify the rounding errors of differences
def unscented_filter(x):
    states = filtered(x, False)[1]
    return np.append(states[-1].mean(), states[-1].covariance())


@cases([0.1, 0.2, 0.3, 0.8])
def smoother(x):
    filters, states = filtered(x, True)
    smoothed = RTS(filters).apply(states, [0.5, 1.0, 1.5], use_jacobian=True)
    return np.append(smoothed[0].mean(), smoothed[0].covariance())


@cases([0.3, 0.8, 1.0, 0.2, 0.5])
def unscented_transform(x):
    covariance = np.array([[x[2], x[3]], [x[3], x[4]]])
    mean, spread = propagate_gaussian(x[:2], covariance, lambda s: np.array([s[0] ** 2, np.sin(s[1])]))
    return np.append(mean, spread)


@cases([0.3, 0.8, 1.0, 0.2, 0.5])
def sigma_points(x):
    return Gaussian(x[:2], np.array([[x[2], x[3]], [x[3], x[4]]])).compute_sigma_points()
