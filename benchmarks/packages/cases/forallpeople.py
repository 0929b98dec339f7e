"""Physical quantities with units."""

import forallpeople as si

from benchmarks.packages.cases import Cases

PACKAGE = "forallpeople"
cases = Cases()
si.environment("default", top_level=False)


@cases([5.0, 3.0, 2.0])
def stress(x):
    force = x[0] * 1000 * si.kg * si.m / si.s**2
    area = (x[1] * si.m) * (x[2] * si.m)
    return (force / area).value


@cases([4.0, 200.0])
def deflection(x):
    load = x[0] * si.kg * si.m / si.s**2
    stiffness = x[1] * si.kg / si.s**2
    return (load / stiffness).value


@cases([2.0, 9.0])
def kinetic_energy(x):
    return (0.5 * (x[0] * si.kg) * (x[1] * si.m / si.s) ** 2).value


@cases([16.0])
def side_of_square(x):
    return ((x[0] * si.m**2) ** 0.5).value


@cases([3.0, 2.0])
def ratio(x):
    return (x[0] * si.m) / (x[1] * si.m)
