"""Distributions of lifetimes."""

from reliability.Distributions import (
    Exponential_Distribution,
    Gamma_Distribution,
    Lognormal_Distribution,
    Weibull_Distribution,
)
from reliability.Fitters import Fit_Weibull_2P
from reliability.PoF import acceleration_factor

from benchmarks.packages.cases import Cases

PACKAGE = "reliability"
cases = Cases()


@cases([30.0, 2.0, 12.0])
def density_of_weibull(x):
    return Weibull_Distribution(alpha=x[0], beta=x[1]).PDF(x[2:], show_plot=False)


@cases([30.0, 2.0, 12.0])
def hazard_of_weibull(x):
    return Weibull_Distribution(alpha=x[0], beta=x[1]).HF(xvals=float(x[2]), show_plot=False)


@cases([30.0, 2.0])
def mean_of_weibull(x):
    return Weibull_Distribution(alpha=x[0], beta=x[1]).mean


@cases([0.05, 12.0])
def survival_of_exponential(x):
    return Exponential_Distribution(Lambda=x[0]).SF(float(x[1]), show_plot=False)


@cases([2.0, 0.5, 12.0])
def survival_of_lognormal(x):
    return Lognormal_Distribution(mu=x[0], sigma=x[1]).SF(x[2:], show_plot=False)


@cases([2.0, 3.0, 12.0])
def density_of_gamma(x):
    return Gamma_Distribution(alpha=x[0], beta=x[1]).PDF(x[2:], show_plot=False)


@cases([30.0, 2.0])
def likelihood_of_weibull(x):
    return Fit_Weibull_2P.LL(x, [10.0, 20.0, 35.0], [40.0])


@cases([320.0, 380.0])
def acceleration(x):
    return acceleration_factor(T_use=x[0] - 273.15, T_acc=x[1] - 273.15, Ea=0.8, print_results=False).AF
