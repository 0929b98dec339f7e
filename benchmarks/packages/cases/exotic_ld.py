"""Limb darkening of stars."""

import numpy as np
from exotic_ld import StellarLimbDarkening, ld_laws

from benchmarks.packages.cases import Cases

PACKAGE = "exotic-ld"
cases = Cases()

MU = np.linspace(0.1, 1.0, 10)
WAVELENGTHS = np.linspace(4000.0, 9000.0, 40)
SPECTRA = np.exp(-(((WAVELENGTHS - 5500.0) / 2500.0) ** 2))[:, None] * MU ** (WAVELENGTHS[:, None] / 9000.0)


def star(spectra):
    return StellarLimbDarkening(
        ld_model="custom", custom_wavelengths=WAVELENGTHS, custom_mus=MU, custom_stellar_model=spectra, verbose=0
    )


@cases([0.3, 0.2])
def quadratic(u):
    return ld_laws.quadratic_ld_law(MU, u[0], u[1])


@cases([0.3, 0.4])
def kipping(q):
    return ld_laws.kipping_ld_law(MU, q[0], q[1])


@cases([0.5, -0.1, 0.4, -0.2])
def four_parameters(c):
    return ld_laws.nonlinear_4param_ld_law(MU, *c)


@cases([0.4, 0.2], step=1e-3, rtol=1e-5)
def fitted_to_a_star(u):
    spectra = np.outer(SPECTRA[:, -1], 1 - u[0] * (1 - MU) - u[1] * (1 - MU**0.5))
    return np.stack(
        star(spectra).compute_quadratic_ld_coeffs(
            [5000.0, 7000.0], "custom", custom_wavelengths=WAVELENGTHS, custom_throughput=np.ones(40)
        )
    )


@cases([0.9, 1.1], step=1e-3, rtol=1e-5)
def throughput(t):
    response = np.linspace(t[0], t[1], 40)
    return np.stack(
        star(SPECTRA).compute_linear_ld_coeffs(
            [5000.0, 7000.0], "custom", custom_wavelengths=WAVELENGTHS, custom_throughput=response
        )
    )
