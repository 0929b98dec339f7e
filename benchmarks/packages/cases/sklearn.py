"""Kernels, metrics and estimators of scikit-learn that are written in Python."""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.metrics.pairwise import cosine_similarity, rbf_kernel
from sklearn.preprocessing import StandardScaler

from benchmarks.packages.cases import Cases

PACKAGE = "scikit-learn"
cases = Cases()
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 2)), RNG.normal(size=6)
PROCESS = GaussianProcessRegressor(RBF(1.0), alpha=0.1, optimizer=None).fit(X, Y)
LINE = LinearRegression().fit(X, Y)


@cases([1.2, 0.8])
def kernel(x):
    return (ConstantKernel(x[0]) * Matern(x[1], nu=2.5) + WhiteKernel(0.1))(X)


@cases(X[:2])
def gaussian_process(x):
    return PROCESS.predict(x)


@cases([0.2])
def marginal_likelihood(x):
    return PROCESS.log_marginal_likelihood(x)


@cases(Y + 0.1)
def metrics(x):
    return np.array([mean_squared_error(Y, x), r2_score(Y, x)])


@cases(X[2:4])
def similarities(x):
    return rbf_kernel(x, X[:2]) + cosine_similarity(x, X[:2])


@cases(X[:2])
def linear_regression(x):
    return LINE.predict(x)


@cases(Y)
def ridge_regression(x):
    return Ridge(0.1).fit(X, x).coef_


@cases(X)
def scaled(x):
    return StandardScaler().fit_transform(x)


@cases(X)
def principal_components(x):
    return PCA(1).fit(x).explained_variance_
