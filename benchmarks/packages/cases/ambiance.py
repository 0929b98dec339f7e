"""Standard atmosphere, in NumPy."""

from ambiance import Atmosphere

from benchmarks.packages.cases import Cases

PACKAGE = "ambiance"
cases = Cases()


@cases(5000.0)
def density(height):
    return Atmosphere(height).density


@cases([5000.0, 12000.0])
def speed_of_sound(heights):
    return Atmosphere(heights).speed_of_sound


@cases([5000.0, 12000.0])
def viscosity(heights):
    return Atmosphere(heights).dynamic_viscosity
