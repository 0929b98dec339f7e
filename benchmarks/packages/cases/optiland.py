"""Optical design: rays through lenses."""

import numpy as np
from optiland.coordinate_system import CoordinateSystem
from optiland.geometries import EvenAsphere, StandardGeometry
from optiland.materials import AbbeMaterial, IdealMaterial
from optiland.optic import Optic
from optiland.rays import RealRays

from benchmarks.packages.cases import Cases

PACKAGE = "optiland"
cases = Cases()


def singlet(radius, thickness):
    """Return a lens with two surfaces."""
    lens = Optic()
    lens.surfaces.add(index=0, radius=np.inf, thickness=np.inf)
    lens.surfaces.add(index=1, thickness=thickness, radius=radius, is_stop=True, material=IdealMaterial(1.5))
    lens.surfaces.add(index=2, thickness=90.0, radius=-60.0)
    lens.surfaces.add(index=3)
    lens.set_aperture(aperture_type="EPD", value=10.0)
    lens.fields.set_type(field_type="angle")
    lens.fields.add(y=0)
    lens.wavelengths.add(value=0.58756180, is_primary=True)
    return lens


@cases([50.0, 5.0])
def focal_length(x):
    return singlet(x[0], x[1]).paraxial.f2()


@cases([50.0, 5.0])
def height_of_marginal_ray(x):
    return singlet(x[0], x[1]).trace_generic(Hx=0.0, Hy=0.0, Px=0.0, Py=0.7, wavelength=0.5876).y[0]


@cases([2.0, 3.0])
def sag_of_asphere(x):
    return EvenAsphere(CoordinateSystem(), 50.0, conic=-0.5, coefficients=[1e-3, 1e-5]).sag(x[0], x[1])


@cases([1.0, 2.0])
def distance_to_sphere(x):
    rays = RealRays(x[0], x[1], -5.0, 0.0, 0.0, 1.0, 1.0, 0.55)
    return StandardGeometry(CoordinateSystem(), 50.0, conic=0.2).distance(rays)


@cases(0.55)
def refractive_index(wavelength):
    return AbbeMaterial(1.5, 60.0).n(wavelength)
