"""Physical optics: wavefronts, Zernike polynomials, Fourier transforms by matrices."""

import numpy as np
import poppy
from astropy import units

from benchmarks.packages.cases import Cases

PACKAGE = "poppy"
cases = Cases()
RHO, THETA = np.meshgrid(np.linspace(0.1, 0.9, 4), np.linspace(0.0, 5.0, 4))


@cases([0.1, 0.05, -0.02])
def wavefront_of_zernikes(c):
    basis = poppy.zernike.zernike_basis(nterms=3, rho=RHO, theta=THETA)
    return np.tensordot(c, basis, axes=1)


@cases(RHO[0])
def zernike(rho):
    return poppy.zernike.zernike(4, 2, rho=rho, theta=np.full(4, 0.3), outside=0.0)


@cases([0.3, -0.2])
def point_spread(c):
    pupil = np.exp(1j * (c[0] * RHO**2 + c[1] * RHO * np.cos(THETA)))
    return np.abs(poppy.matrixDFT.matrix_dft(pupil, 4.0, 5)) ** 2


@cases([0.4e-6, 0.2e-6], step=1e-3)
def intensity(c):
    optics = poppy.OpticalSystem(npix=16, oversample=1)
    optics.add_pupil(poppy.CircularAperture(radius=1.0))
    optics.add_pupil(poppy.ZernikeWFE(radius=1.0, coefficients=[0.0, 0.0, 0.0, c[0], c[1]]))
    optics.add_detector(pixelscale=0.1, fov_pixels=5)
    return optics.calc_psf(wavelength=1e-6)[0].data


@cases([1e-3, 2.0], step=1e-3)
def gaussian_beam(x):
    beam = poppy.fresnel.FresnelWavefront(x[0] * units.m, wavelength=1e-6, npix=16, oversample=2)
    return beam.spot_radius(x[1] * units.m).to_value(units.m)
