"""Foundations on soil."""

import geofound
import sfsimodels

from benchmarks.packages.cases import Cases

PACKAGE = "geofound"
cases = Cases()


def soil_and_footing(x):
    soil = sfsimodels.Soil()
    soil.phi, soil.cohesion, soil.unit_dry_weight = x[0], x[1], 17000.0
    footing = sfsimodels.PadFoundation()
    footing.length, footing.width, footing.depth = x[2], x[3], 1.0
    return soil, footing


POINT = [28.0, 5000.0, 4.0, 3.0]


@cases(POINT)
def capacity_of_vesic(x):
    return geofound.capacity_vesic_1975(*soil_and_footing(x)) / 1e5


@cases(POINT)
def capacity_of_terzaghi(x):
    return geofound.capacity_terzaghi_1943(*soil_and_footing(x)) / 1e5


@cases(POINT)
def capacity_of_meyerhof(x):
    return geofound.capacity_meyerhof_1963(*soil_and_footing(x)) / 1e5


@cases(POINT)
def capacity_of_hansen(x):
    return geofound.capacity_brinch_hansen_1970(*soil_and_footing(x)) / 1e5
