"""Ray matrices of optical systems."""

import numpy as np
from raytracing import GaussianBeam, ImagingPath, Lens, Ray, Space, ThickLens

from benchmarks.packages.cases import Cases

PACKAGE = "raytracing"
cases = Cases()


@cases([50.0, 80.0, 0.3, 0.02])
def ray_through_lens(x):
    ray = Space(d=x[1]) * (Lens(f=x[0]) * (Space(d=60.0) * Ray(y=x[2], theta=x[3])))
    return np.array([ray.y, ray.theta])


@cases([50.0, 60.0])
def gaussian_beam(x):
    beam = Space(d=x[1]) * (Lens(f=x[0]) * GaussianBeam(w=0.1, wavelength=0.0006328))
    return np.array([beam.w, beam.R, beam.waist])


@cases([1.55, 20.0, -25.0, 5.0])
def thick_lens(x):
    lens = ThickLens(n=x[0], R1=x[1], R2=x[2], thickness=x[3])
    return np.array([lens.A, lens.B, lens.C, lens.D, lens.focalDistances()[0]])


@cases([50.0, 30.0])
def image_of_path(x):
    path = ImagingPath()
    path.append(Space(d=100.0))
    path.append(Lens(f=x[0]))
    path.append(Space(d=x[1]))
    path.append(Lens(f=40.0))
    distance, conjugate = path.forwardConjugate()
    return np.array([distance, conjugate.magnification()[0]])
