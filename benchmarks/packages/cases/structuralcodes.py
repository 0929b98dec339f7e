"""Formulas of design codes for concrete."""

import numpy as np
from structuralcodes.codes import ec2_2004, mc2010
from structuralcodes.materials.concrete import create_concrete

from benchmarks.packages.cases import Cases

PACKAGE = "structuralcodes"
cases = Cases()


@cases(35.0)
def strengths(fck):
    mean = ec2_2004.fcm(fck)
    return np.array([ec2_2004.fctm(fck), ec2_2004.Ecm(mean), ec2_2004.eps_c1(mean)])


@cases([28.0, 400.0])
def development(t):
    return ec2_2004.beta_cc(t, 0.25)


@cases([43.0, 60.0, 150.0])
def creep(x):
    drying = mc2010.beta_dc_fcm(x[0]) * mc2010.beta_dc_RH(x[1], x[2])
    return np.array([drying, mc2010.beta_bc_fcm(x[0]), mc2010.beta_h(x[2], mc2010.alpha_fcm(x[0]))])


@cases(35.0)
def material(fck):
    concrete = create_concrete(fck=fck, design_code="ec2_2004")
    return np.array([concrete.fctm, concrete.Ecm, concrete.fcd()])
