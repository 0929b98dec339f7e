"""Tracking: coordinates and Kalman filters."""

import datetime

import numpy as np
from stonesoup.functions import build_rotation_matrix, cart2sphere, sphere2cart
from stonesoup.models.measurement.linear import LinearGaussian
from stonesoup.models.measurement.nonlinear import CartesianToBearingRange
from stonesoup.models.transition.linear import CombinedLinearGaussianTransitionModel, ConstantVelocity
from stonesoup.predictor.kalman import KalmanPredictor
from stonesoup.types.detection import Detection
from stonesoup.types.hypothesis import SingleHypothesis
from stonesoup.types.state import GaussianState, State
from stonesoup.updater.kalman import ExtendedKalmanUpdater, KalmanUpdater

from benchmarks.packages.cases import Cases

PACKAGE = "stonesoup"
cases = Cases()

START = datetime.datetime(2026, 1, 1)
NEXT = START + datetime.timedelta(seconds=2)
MOTION = CombinedLinearGaussianTransitionModel([ConstantVelocity(0.05), ConstantVelocity(0.05)])
POSITION = LinearGaussian(ndim_state=4, mapping=(0, 2), noise_covar=np.diag([0.5, 0.7]))
BEARING = CartesianToBearingRange(ndim_state=4, mapping=(0, 2), noise_covar=np.diag([0.01, 0.5]))


def column(x):
    return x.reshape(-1, 1)


@cases([1.0, 2.0, 0.5])
def spherical_coordinates(x):
    return np.stack(cart2sphere(*x)[:1] + sphere2cart(*x))


@cases([0.3, 0.2, 0.5])
def rotation(x):
    return build_rotation_matrix(column(x))


@cases([1.0, 0.5, 2.0, -0.3])
def predicted_state(x):
    prior = GaussianState(column(x), np.eye(4), timestamp=START)
    return KalmanPredictor(MOTION).predict(prior, timestamp=NEXT).state_vector[:, 0]


@cases([1.5, 2.2])
def updated_state(z):
    prediction = GaussianState(np.array([[1.0], [0.5], [2.0], [-0.3]]), np.eye(4), timestamp=START)
    measured = Detection(column(z), timestamp=START, measurement_model=POSITION)
    return KalmanUpdater(POSITION).update(SingleHypothesis(prediction, measured)).state_vector[:, 0]


@cases([1.5, 0.5, 2.2, -0.3])
def range_of_target(x):
    return BEARING.function(State(column(x)), noise=False)[1, 0]


@cases([1.5, 0.5, 2.2, -0.3])
def update_of_extended_filter(x):
    prediction = GaussianState(column(x), np.eye(4), timestamp=START)
    measured = Detection(np.array([[0.9], [2.5]]), timestamp=START, measurement_model=BEARING)
    return ExtendedKalmanUpdater(BEARING).update(SingleHypothesis(prediction, measured)).covar
