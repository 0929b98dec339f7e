"""Gravitational lenses and the light of galaxies."""

import numpy as np
from lenstronomy.Cosmo.lens_cosmo import LensCosmo
from lenstronomy.LensModel.lens_model import LensModel
from lenstronomy.LightModel.light_model import LightModel
from lenstronomy.Util import param_util

from benchmarks.packages.cases import Cases

PACKAGE = "lenstronomy"
cases = Cases()
X, Y = np.array([1.0, -0.3, 0.4]), np.array([0.2, 0.9, -1.1])


@cases([1.2, 0.1, -0.05])
def deflection_by_an_isothermal_ellipsoid(p):
    return np.stack(LensModel(["SIE"]).alpha(X, Y, [{"theta_E": p[0], "e1": p[1], "e2": p[2]}]))


@cases([0.8, 1.1])
def convergence_of_a_halo(p):
    return LensModel(["NFW"]).kappa(X, Y, [{"Rs": p[0], "alpha_Rs": p[1]}])


@cases([1.2, 0.05, 0.1])
def sources_of_images(p):
    model = LensModel(["SIS", "SHEAR"])
    kwargs = [{"theta_E": p[0]}, {"gamma1": p[1], "gamma2": p[2]}]
    return np.stack(model.ray_shooting(X, Y, kwargs))


@cases([1.2, 2.1, 0.1, 0.0])
def arrival_potential(p):
    kwargs = [{"theta_E": p[0], "gamma": p[1], "e1": p[2], "e2": p[3]}]
    return LensModel(["EPL"]).fermat_potential(X, Y, kwargs, 0.1, 0.05)


@cases([0.6, 2.5, 0.1])
def light_of_a_galaxy(p):
    kwargs = [{"amp": 1.0, "R_sersic": p[0], "n_sersic": p[1], "e1": p[2], "e2": 0.0, "center_x": 0, "center_y": 0}]
    return LightModel(["SERSIC_ELLIPSE"]).surface_brightness(X, Y, kwargs)


@cases([0.5, 0.7])
def ellipticity(p):
    return np.stack(param_util.phi_q2_ellipticity(p[0], p[1]))


@cases([0.4, 1.5], step=1e-3)
def dispersion_of_velocities(z):
    return LensCosmo(z[0], z[1]).sis_theta_E2sigma_v(1.1)
