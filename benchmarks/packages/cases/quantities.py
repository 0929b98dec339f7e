"""Physical units."""

import quantities as pq

from benchmarks.packages.cases import Cases

PACKAGE = "quantities"
cases = Cases()


@cases([1.0, 2.0])
def speed(x):
    return ((x[0] * pq.km) / (x[1] * pq.s)).rescale("m/s").magnitude


@cases([1.0, 2.0])
def of_array(x):
    return pq.Quantity(x, "km").rescale("m").magnitude


@cases([1.0, 2.0])
def simplified(x):
    return (x * pq.km**2).simplified.magnitude
