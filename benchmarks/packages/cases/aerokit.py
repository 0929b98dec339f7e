"""Compressible flow: isentropic relations, shocks and expansions."""

import numpy as np
from aerokit.aero import Isentropic, MassFlow, ShockWave, Supersonic
from aerokit.aero.model2D import State2DMach
from aerokit.aero.unsteady1D import unsteady_state
from aerokit.common.numspectral import ChebCollocation
from aerokit.instance import riemann

from benchmarks.packages.cases import Cases

PACKAGE = "aerokit"
cases = Cases()


@cases([1.6, 1.4])
def isentropic(x):
    pressure = Isentropic.PtPs_Mach(x[0], x[1])
    return np.array([pressure, Isentropic.Mach_PtPs(2 * pressure, x[1]), Isentropic.Velocity_MachTt(x[0], 300.0)])


@cases([2.5, 10.0])
def weak_shock_angle(x):
    return ShockWave.weaksigma_Mach_deflection(x[0], x[1])


@cases([2.5, 35.0])
def conical_deflection(x):
    return ShockWave.conical_deflection_Mach_sigma(x[0], x[1])


@cases(30.0)
def mach_of_an_expansion(x):
    return Supersonic.Mach_PrandtlMeyer(x)


@cases([1.5, 2.0])
def mach_of_a_section(x):
    return MassFlow.MachSub_Sigma(x)


@cases([2.5, 3.0, 8.0])
def state_behind_a_shock(x):
    return State2DMach(x[0], x[1]).weakshock_deviation(x[2]).Mach


@cases([1.0, 0.1, 1.0, 0.125, 0.05, 0.1])
def riemann_problem(x):
    return riemann.riemann_pb(unsteady_state(*x[:3]), unsteady_state(*x[3:])).ustar()


@cases(1.3)
def derivative_by_collocation(x):
    points = ChebCollocation(8, xmin=0.0, xmax=2.0)
    return points.matder(1) @ np.sin(x * points.x)
