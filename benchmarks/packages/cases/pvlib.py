"""Photovoltaics."""

import pvlib

from benchmarks.packages.cases import Cases

PACKAGE = "pvlib"
cases = Cases()


@cases([30.0, 180.0, 40.0, 170.0])
def angle_of_incidence(x):
    return pvlib.irradiance.aoi(x[0], x[1], x[2], x[3])


@cases(50.0)
def airmass(zenith):
    return pvlib.atmosphere.get_relative_airmass(zenith)


@cases([40.0, 1.5, 3.0])
def clear_sky(x):
    return pvlib.clearsky.ineichen(x[0], x[1], x[2], altitude=100.0)["ghi"]


@cases([8.0, 5e-10, 0.2, 300.0, 1.5])
def maximum_power(x):
    return pvlib.pvsystem.singlediode(x[0], x[1], x[2], x[3], x[4])["p_mp"]


@cases([8.0, 5e-10, 0.2, 300.0, 1.5])
def current_at_voltage(x):
    return pvlib.pvsystem.i_from_v(20.0, x[0], x[1], x[2], x[3], x[4])


@cases([800.0, 20.0, 3.0])
def cell_temperature(x):
    return pvlib.temperature.faiman(x[0], x[1], x[2])


@cases([800.0, 20.0, 3.0])
def cell_temperature_sandia(x):
    return pvlib.temperature.sapm_cell(x[0], x[1], x[2], a=-3.47, b=-0.0594, deltaT=3.0)


@cases(35.0)
def incidence_modifier(angle):
    return pvlib.iam.physical(angle)


@cases([900.0, 25.0])
def power(x):
    return pvlib.pvsystem.pvwatts_dc(x[0], x[1], 100.0, -0.003)
