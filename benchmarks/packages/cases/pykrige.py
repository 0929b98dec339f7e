"""Kriging."""

import numpy as np
from pykrige import variogram_models
from pykrige.ok import OrdinaryKriging

from benchmarks.packages.cases import Cases

PACKAGE = "PyKrige"
cases = Cases()
X, Y, Z = np.array([[0.0, 1.0, 2.0, 0.5], [0.0, 1.5, 0.3, 2.0], [1.0, 2.0, 1.5, 3.0]])
PLACE = np.array([0.7]), np.array([0.9])


@cases([1.0, 1.5, 0.1])
def variograms(x):
    models = ("gaussian", "spherical", "exponential", "hole_effect")
    distances = np.array([0.1, 0.5, 2.0])
    return np.array([np.sum(getattr(variogram_models, f"{m}_variogram_model")(list(x), distances)) for m in models])


@cases(Z)
def of_the_data(x):
    kriging = OrdinaryKriging(X, Y, x, variogram_model="exponential", variogram_parameters=[1.0, 1.5, 0.1])
    return kriging.execute("points", *PLACE)[0]


@cases([1.0, 1.5, 0.1])
def of_the_variogram(x):
    kriging = OrdinaryKriging(X, Y, Z, variogram_model="gaussian", variogram_parameters=list(x))
    return np.ravel(kriging.execute("points", *PLACE))


@cases([0.7, 0.9])
def of_the_place(x):
    kriging = OrdinaryKriging(X, Y, Z, variogram_model="gaussian", variogram_parameters=[1.0, 1.5, 0.1])
    return kriging.execute("points", x[:1], x[1:])[0]
