"""Map projections of the EPSG registry."""

import numpy as np
from coordop.projection import epsg
from coordop.surface import Ellipsoid, Spheroid

from benchmarks.packages.cases import Cases

PACKAGE = "coordop"
cases = Cases()
EARTH = Ellipsoid.of_inverse_flattening(6378137.0, 298.257223563)
PLACE = [0.8, 0.2]


def there_and_back(projection, x):
    y = projection.compute(x)
    return np.array([*y, *projection.inverse(y)])


@cases(PLACE)
def web_mercator(x):
    return np.array(epsg.Epsg1024(EARTH, 0.0, 0.0, 0.0).compute(x))


@cases(PLACE)
def lambert_azimuthal(x):
    return there_and_back(epsg.Epsg1027(Spheroid.of_radius(6371e3), phi0=0.7, lambda0=0.1, fe=0.0, fn=0.0), x)


@cases(PLACE)
def lambert_conic(x):
    return there_and_back(epsg.Epsg9801(EARTH, phi0=0.7, lambda0=0.1, k0=0.9996, fe=0.0, fn=0.0), x)


@cases([0.8, 0.2, 0.3])
def equidistant_cylindrical(x):
    return np.array(epsg.Epsg1028Series(EARTH, phi1=x[2], lambda0=0.1, fe=0.0, fn=0.0).compute(x[:2]))
