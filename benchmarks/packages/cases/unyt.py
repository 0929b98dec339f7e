"""Physical units."""

import numpy as np
import unyt
from unyt import km, s, unyt_array, unyt_quantity

from benchmarks.packages.cases import Cases

PACKAGE = "unyt"
cases = Cases()


@cases([1.0, 2.0])
def speed(x):
    return ((x[0] * km) / (x[1] * s)).to("m/s").value


@cases([1.0, 2.0])
def of_array(x):
    return unyt_array(x, "km").to_value("m")


@cases(2.0)
def of_quantity(x):
    return unyt_quantity(x, "degC").to("K").value


@cases([1.0, 2.0])
def norm(x):
    return np.sqrt(np.sum((x * unyt.cm) ** 2)).in_units("m").value
