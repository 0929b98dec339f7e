"""Life contingent risks."""

import actuarialmath
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "actuarialmath"
cases = Cases()


@cases([2.7e-6, 1.124])
def survival_of_makeham(x):
    return actuarialmath.Makeham(A=0.00022, B=x[0], c=x[1]).S(20, s=10, t=20)


@cases(0.02)
def constant_force(mu):
    life = actuarialmath.ConstantForce(mu=mu).set_interest(delta=0.05)
    return np.array([life.whole_life_insurance(30, discrete=False), life.whole_life_annuity(30, discrete=False)])


@cases([0.03, 0.05])
def interest(x):
    rates = actuarialmath.Interest(delta=x[0])
    return np.array([rates.annuity(t=10), actuarialmath.Interest(i=x[1]).v])


@cases(0.05)
def net_premium(rate):
    life = actuarialmath.SULT(i=rate)
    return life.net_premium(45)
