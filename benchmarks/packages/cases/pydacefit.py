"""Kriging."""

import numpy as np
from pydacefit.corr import calc_kernel_matrix, corr_cubic, corr_exp, corr_gauss, corr_spline
from pydacefit.dace import DACE
from pydacefit.fit import fit
from pydacefit.regr import regr_constant, regr_linear, regr_quadratic

from benchmarks.packages.cases import Cases

PACKAGE = "pydacefit"
cases = Cases()
X = np.random.default_rng(0).random((12, 2))
Y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2


@cases([0.4, 0.6])
def prediction(x):
    model = DACE(regr=regr_linear, corr=corr_gauss, theta=np.array([1.0, 1.0]), thetaL=None, thetaU=None)
    model.fit(X, Y)
    return model.predict(x[np.newaxis])[0, 0]


@cases([0.4, 0.6])
def uncertainty(x):
    model = DACE(regr=regr_constant, corr=corr_exp, theta=np.array([1.5, 1.5]), thetaL=None, thetaU=None)
    model.fit(X, Y)
    return model.predict(x[np.newaxis], return_mse=True)[1][0, 0]


@cases([1.0, 0.7])
def likelihood(theta):
    return fit(X, Y[:, np.newaxis], regr_quadratic, corr_gauss, theta)["f"]


@cases([0.8])
def cubic_kernel(theta):
    return calc_kernel_matrix(X[:3], X[3:6], corr_cubic, theta)


@cases([0.8])
def spline_kernel(theta):
    return calc_kernel_matrix(X[:3], X[3:6], corr_spline, theta)


@cases(Y)
def prediction_by_data(y):
    model = DACE(regr=regr_constant, corr=corr_gauss, theta=np.array([1.0, 1.0]), thetaL=None, thetaU=None)
    model.fit(X, y)
    return model.predict(np.array([[0.4, 0.6]]))[0, 0]
