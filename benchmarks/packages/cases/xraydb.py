"""Scattering and absorption of X-rays."""

import xraydb

from benchmarks.packages.cases import Cases

PACKAGE = "xraydb"
cases = Cases()


@cases([0.3, 0.5])
def form_factor(x):
    return xraydb.f0("Fe", x)


@cases(9000.0)
def absorption(x):
    return xraydb.material_mu("Si", x)


@cases([9100.0, 9200.0])
def anomalous_scattering(x):
    return xraydb.f1_chantler("Cu", x)
