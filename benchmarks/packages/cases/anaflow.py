"""Flow to wells in aquifers."""

import anaflow
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "anaflow"
cases = Cases()


@cases([0.5, 1e-4])
def thiem(x):
    return anaflow.thiem([x[0], 2.0], 10.0, x[1])


@cases([1e-3, 1e-4])
def theis(x):
    return anaflow.theis([10.0, 600.0], [1.0, 5.0], x[0], x[1])


@cases([1e-4, 0.5, 10.0])
def effective_thiem(x):
    return anaflow.ext_thiem_2d([1.0, 5.0], 30.0, *x)


@cases([1e-4, 0.5, 10.0])
def steady_head_of_neuman(x):
    return anaflow.neuman2004_steady(np.array([1.0, 5.0]), 30.0, *x)
