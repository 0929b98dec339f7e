"""Piecewise linear fits."""

import numpy as np
import pwlf

from benchmarks.packages.cases import Cases

PACKAGE = "pwlf"
cases = Cases()
X = np.linspace(0.0, 10.0, 15)
Y = np.where(X < 4, X, 4 - 0.5 * (X - 4)) + 0.1 * np.sin(5 * X)


@cases([3.2, 7.1])
def squared_residuals(breaks):
    model = pwlf.PiecewiseLinFit(X, Y)
    return model.fit_with_breaks(np.concatenate([[0.0], breaks, [10.0]]))


@cases([3.2, 7.1])
def objective(breaks):
    model = pwlf.PiecewiseLinFit(X, Y)
    model.use_custom_opt(3)
    return model.fit_with_breaks_opt(breaks)


@cases([3.2, 7.1])
def predictions(breaks):
    model = pwlf.PiecewiseLinFit(X, Y)
    model.fit_with_breaks(np.concatenate([[0.0], breaks, [10.0]]))
    return model.predict(np.array([1.0, 5.0, 9.0]))


@cases(Y)
def slopes(y):
    model = pwlf.PiecewiseLinFit(X, y)
    model.fit_with_breaks(np.array([0.0, 4.0, 10.0]))
    return model.slopes


@cases(Y)
def determination(y):
    model = pwlf.PiecewiseLinFit(X, y)
    model.fit_with_breaks(np.array([0.0, 4.0, 10.0]))
    return model.r_squared()


@cases([3.2, 7.1])
def forced_through_a_point(breaks):
    model = pwlf.PiecewiseLinFit(X, Y)
    return model.fit_with_breaks_force_points(np.concatenate([[0.0], breaks, [10.0]]), [0.0], [0.0])
