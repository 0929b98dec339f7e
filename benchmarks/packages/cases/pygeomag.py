"""World magnetic model."""

from pygeomag import GeoMag

from benchmarks.packages.cases import Cases

PACKAGE = "pygeomag"
cases = Cases()


model = GeoMag(coefficients_file="wmm/WMM_2025.COF")


@cases([47.6, -122.3, 10.0, 2025.25], step=1e-4, rtol=1e-5)
def declination(x):
    return model.calculate(glat=x[0], glon=x[1], alt=x[2], time=x[3]).d


@cases([47.6, -122.3, 10.0])
def components(x):
    field = model.calculate(x[0], x[1], x[2], 2025.25)
    return [field.x, field.y, field.z]


@cases([47.6, -122.3])
def intensity_of_new_model(x):
    return GeoMag(coefficients_file="wmm/WMM_2020.COF").calculate(x[0], x[1], 0, 2021.5).total_intensity
