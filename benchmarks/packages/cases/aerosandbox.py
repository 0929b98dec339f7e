"""Aircraft design, in a NumPy that also accepts CasADi."""

import aerosandbox as asb
import aerosandbox.numpy as anp
from aerosandbox.library import aerodynamics

from benchmarks.packages.cases import Cases

PACKAGE = "AeroSandbox"
cases = Cases()


@cases(5000.0)
def density(altitude):
    return asb.Atmosphere(altitude=altitude).density()


@cases(5000.0)
def pressure_isa(altitude):
    return asb.Atmosphere(altitude=altitude, method="isa").pressure()


@cases([5000.0, 60.0])
def reynolds(x):
    return asb.OperatingPoint(atmosphere=asb.Atmosphere(altitude=x[0]), velocity=x[1]).reynolds(1.5)


@cases(1e6)
def skin_friction(re):
    return aerodynamics.Cf_flat_plate(re)


@cases([1.0, 2.0, 3.0])
def norm(x):
    return anp.linalg.norm(x)


@cases([0.3, 0.8])
def blend(x):
    return anp.blend(x[0], x[1], 2.0)
