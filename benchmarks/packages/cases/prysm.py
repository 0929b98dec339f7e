"""Physical optics."""

import numpy as np
from prysm import jacobi, psf, refractive, thinfilm, thinlens, zernike
from prysm.mathops import jinc

from benchmarks.packages.cases import Cases

PACKAGE = "prysm"
cases = Cases()


@cases([0.55, 1.5, 0.005])
def cauchy_index(x):
    return refractive.cauchy(x[0], x[1], x[2])


@cases([0.55, 1.04, 0.232, 0.006, 0.02])
def sellmeier_index(x):
    return refractive.sellmeier(x[0], [x[1], x[2]], [x[3], x[4]])


@cases([1.38, 0.1, 2.1])
def reflectance_of_coating(x):
    r, _ = thinfilm.multilayer_stack_rt("s", 0.55, [(x[0], x[1]), (x[2], 0.05), (1.5, 1.0)], aoi=10.0)
    return np.abs(r) ** 2


@cases([1.5, 0.4])
def fresnel_reflection(x):
    inner = thinfilm.snell_aor(1.0, x[0], x[1], degrees=False)
    return thinfilm.fresnel_rp(1.0, x[0], x[1], inner)


@cases([100.0, 500.0])
def image_distance(x):
    return thinlens.object_to_image_dist(x[0], x[1])


@cases([100.0, 50.0, 20.0])
def two_lenses(x):
    return np.stack([thinlens.twolens_efl(x[0], x[1], x[2]), thinlens.twolens_bfl(x[0], x[1], x[2])])


@cases([0.3, 0.7])
def coma(x):
    return zernike.primary_coma_y(x[0], x[1])


@cases(0.4)
def jacobi_polynomial(x):
    return jacobi.jacobi(4, 0.5, 1.0, x)


@cases([1.5, 2.0])
def airy_disk(x):
    return psf.airydisk(x[0], 4.0, x[1] * 0.3)


@cases(1.3)
def jinc_function(r):
    return jinc(r)
