"""Retention curves of unsaturated soils: models and costs."""

import numpy as np
import unsatfit

from benchmarks.packages.cases import Cases

PACKAGE = "unsatfit"
cases = Cases()
HEADS = np.array([5.0, 20.0, 80.0, 300.0, 1500.0])
CONTENTS = np.array([0.42, 0.38, 0.25, 0.15, 0.1])


def fit_of(model, const=()):
    fit = unsatfit.Fit()
    fit.set_model(model, const=list(const))
    return fit


@cases([0.43, 0.05, 12.0, 0.6])
def brooks_and_corey(p):
    return fit_of("BC", ["q=1"]).f_ht(p, HEADS)


@cases([0.43, 0.05, 0.03, 0.45])
def van_genuchten(p):
    return fit_of("VG", ["q=1"]).f_ht(p, HEADS)


@cases([0.43, 0.05, 0.03, 0.45, 20.0, 0.5, 2.0])
def conductivity(p):
    return np.log(fit_of("VG", ["q=1"]).f_hk(p, HEADS))


@cases([0.43, 0.05, 60.0, 1.2])
def kosugi(p):
    return fit_of("KO", ["q=1"]).f_ht(p, HEADS)


@cases([0.43, 0.05, 0.6, 0.05, 0.4, 0.005, 0.5])
def two_pore_sizes(p):
    return fit_of("dual-VG", ["q=1"]).f_ht(p, HEADS)


@cases([0.43, 0.05, 0.03, 0.45])
def residual(p):
    return fit_of("VG", ["q=1"]).residual_ht(p, HEADS, CONTENTS)
