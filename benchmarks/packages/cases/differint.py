"""Fractional derivatives and integrals."""

import numpy as np
from differint import differint

from benchmarks.packages.cases import Cases

PACKAGE = "differint"
cases = Cases()


@cases(0.5)
def gruenwald_letnikov(alpha):
    return differint.GLpoint(alpha, lambda x: x**2 + 1.0, 0.0, 1.0, 50)


@cases(0.5)
def riemann_liouville(alpha):
    return differint.RLpoint(alpha, lambda x: x**2 + 1.0, 0.0, 1.0, 30)


@cases([1.0, 0.5])
def gruenwald_letnikov_of_parameters(p):
    return differint.GLpoint(0.5, lambda x: p[0] * x**2 + np.sin(p[1] * x), 0.0, 1.0, 50)


@cases([1.0, 0.5])
def riemann_liouville_on_grid(p):
    return differint.RL(0.5, lambda x: p[0] * x**2 + np.sin(p[1] * x), 0.0, 1.0, 20)


@cases([0.4, 1.3])
def caputo(p):
    return differint.CaputoL1point(p[0], lambda x: np.exp(p[1] * x), 0.0, 1.0, 30)


@cases([0.7, 1.1, 0.6])
def mittag_leffler(p):
    return differint.MittagLeffler(p[0], p[1], np.array([p[2]]), num_terms=30)
