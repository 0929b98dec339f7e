"""Universal transverse Mercator projection."""

import utm

from benchmarks.packages.cases import Cases

PACKAGE = "utm"
cases = Cases()


@cases([51.2, 7.5])
def easting_and_northing(x):
    return utm.from_latlon(x[0], x[1])[:2]


@cases([395201.0, 5673135.0])
def latitude_and_longitude(x):
    return utm.to_latlon(x[0], x[1], 32, "U")


@cases([[51.2, 50.1], [7.5, 8.0]])
def eastings_of_arrays(x):
    return utm.from_latlon(x[0], x[1])[0]
