"""Earthquake ground motions."""

import numpy as np
import pygmm

from benchmarks.packages.cases import Cases

PACKAGE = "pygmm"
cases = Cases()


def scenario(x):
    return pygmm.Scenario(
        mag=x[0],
        dist_rup=x[1],
        dist_jb=x[1],
        dist_x=x[1],
        v_s30=x[2],
        depth_tor=2.0,
        depth_1_0=0.1,
        depth_2_5=1.0,
        depth_hyp=8.0,
        depth_bor=10.0,
        dip=90,
        width=10.0,
        mechanism="SS",
        on_hanging_wall=False,
        region="california",
        vs_source="measured",
    )


@cases([6.3, 30.0, 417.0], step=1e-3)
def boore(x):
    return np.log(pygmm.BooreStewartSeyhanAtkinson2014(scenario(x)).spec_accels[::20])


@cases([6.3, 30.0, 417.0], step=1e-3)
def campbell(x):
    return np.log(pygmm.CampbellBozorgnia2014(scenario(x)).spec_accels[::5])


@cases([6.3, 30.0, 417.0], step=1e-3)
def chiou(x):
    return np.log(pygmm.ChiouYoungs2014(scenario(x)).spec_accels[::5])


@cases([6.3, 30.0, 417.0], step=1e-3)
def idriss(x):
    return np.log(pygmm.Idriss2014(scenario(x)).spec_accels[::5])


@cases([6.3, 30.0, 417.0], step=1e-3)
def peak_acceleration(x):
    return pygmm.AbrahamsonSilvaKamai2014(scenario(x)).pga
