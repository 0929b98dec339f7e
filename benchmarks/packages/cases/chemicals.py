"""Properties of chemicals; written with functions of `math`."""

import chemicals

from benchmarks.packages.cases import Cases

PACKAGE = "chemicals"
cases = Cases()


@cases(300.0)
def vapour_pressure_of_water(t):
    return chemicals.Psat_IAPWS(t)


@cases([100.0, 8.7687, 395.744, -6.469])
def antoine(x):
    return chemicals.Antoine(x[0], x[1], x[2], x[3])


@cases([425.0, 425.125, 3.8e6, 0.193])
def lee_kesler(x):
    return chemicals.Lee_Kesler(x[0], x[1] + 10, x[2], x[3])


@cases([1.685, 0.742, 0.532])
def flash_vapour_fraction(ks):
    return chemicals.Rachford_Rice_solution(zs=[0.5, 0.3, 0.2], Ks=ks)[0]


@cases([300.0, 1e5])
def density_of_water_iapws95(x):
    return chemicals.iapws95_rho(x[0], x[1])


@cases([300.0, 0.128289, 0.211382, 645.704, 0.131201])
def dippr_105(x):
    return chemicals.EQ105(*x)


@cases([0.05, 0.95, 1.34e-5, 9.5029e-6])
def viscosity_of_mixture(x):
    return chemicals.Wilke([x[0], x[1]], [x[2], x[3]], [64.06, 28.86])


@cases([300.0, 1000.0])
def viscosity_of_water(x):
    return chemicals.mu_IAPWS(x[0], x[1])


@cases([0.3, 0.7])
def mixing_entropy(x):
    return chemicals.utils.mixing_simple([1.0, 2.5], list(x))
