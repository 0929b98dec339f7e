"""Fluid dynamics; written with functions of `math`."""

import fluids

from benchmarks.packages.cases import Cases

PACKAGE = "fluids"
cases = Cases()


@cases([1e5, 1e-4])
def friction_factor(x):
    return fluids.friction_factor(Re=x[0], eD=x[1])


@cases([2e5, 2e-4])
def churchill_friction(x):
    return fluids.Churchill_1977(x[0], x[1])


@cases([2.5, 0.25, 1.1, 1e-5])
def reynolds(x):
    return fluids.Reynolds(V=x[0], D=x[1], rho=x[2], mu=x[3])


@cases([10.0, 1000.0, 1e-5, 0.1, 1.0])
def one_phase_pressure_drop(x):
    return fluids.one_phase_dP(m=x[0], rho=x[1], mu=x[2], D=x[3], L=x[4])


@cases([11.3, 0.00185, 1e6, 9e5, 1000.0, 0.5])
def isothermal_gas_flow(x):
    return fluids.isothermal_gas(rho=x[0], fd=x[1], P1=x[2], P2=x[3], L=x[4], D=x[5])


@cases([8e-4, 0.4, 1e-3, 1e3, 1e-3])
def packed_bed_ergun(x):
    return fluids.Ergun(dp=x[0], voidage=x[1], vs=x[2], rho=x[3], mu=x[4])


@cases([0.3, 45.0, 0.015, 5.0])
def bend_loss(x):
    return fluids.bend_rounded(Di=x[0], angle=x[1], fd=x[2], bend_diameters=x[3])


@cases(5000.0)
def standard_atmosphere_density(z):
    return fluids.ATMOSPHERE_1976(z).rho


@cases([0.4, 0.05, 1000.0, 1e-3])
def terminal_velocity(x):
    return fluids.v_terminal(D=x[1] * 1e-2, rhop=2600.0 + x[0], rho=x[2], mu=x[3])
