"""Models for fits."""

import lmfit
import numpy as np
from lmfit import lineshapes

from benchmarks.packages.cases import Cases

PACKAGE = "lmfit"
cases = Cases()
grid = np.linspace(-1.0, 1.0, 7)


@cases([1.2, 0.1, 0.5])
def gaussian(x):
    return lineshapes.gaussian(grid, amplitude=x[0], center=x[1], sigma=x[2])


@cases([1.2, 0.1, 0.5, 0.3])
def voigt(x):
    return lineshapes.voigt(grid, amplitude=x[0], center=x[1], sigma=x[2], gamma=x[3])


@cases([1.2, 0.1, 0.5, 0.3])
def pearson7(x):
    return lineshapes.pearson7(grid, amplitude=x[0], center=x[1], sigma=x[2], expon=1.0 + x[3])


@cases([1.2, 0.1, 0.5])
def model_evaluation(x):
    return lmfit.models.GaussianModel().eval(x=grid, amplitude=x[0], center=x[1], sigma=x[2])


@cases([1.2, 0.1, 0.5])
def residual_of_parameters(x):
    parameters = lmfit.create_params(amplitude=x[0], center=x[1], sigma=x[2])
    values = parameters.valuesdict()
    return values["amplitude"] * np.exp(-(((grid - values["center"]) / values["sigma"]) ** 2))
