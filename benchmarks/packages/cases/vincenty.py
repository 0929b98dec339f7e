"""Distance on the ellipsoid."""

import vincenty

from benchmarks.packages.cases import Cases

PACKAGE = "vincenty"
cases = Cases()


@cases([42.3541165, -71.0693514, 40.7791472, -73.9680804])
def distance(x):
    return vincenty.vincenty_inverse((x[0], x[1]), (x[2], x[3]))
