"""Reflection of neutrons and X-rays by layers."""

import numpy as np
from refnx.analysis import Objective
from refnx.dataset import Data1D
from refnx.reflect import SLD, ReflectModel, reflect_model, use_reflect_backend
from refnx.util import general

from benchmarks.packages.cases import Cases

PACKAGE = "refnx"
cases = Cases()
Q = np.linspace(0.02, 0.2, 8)  # above the critical edge


def layers(p):
    return SLD(0.0)(0, 0) | SLD(p[0])(p[1], p[2]) | SLD(2.07)(0, 3.0)


@cases([3.5, 120.0, 4.0], step=1e-3)
def reflectivity(p):
    with use_reflect_backend("python"):
        return np.log10(layers(p).reflectivity(Q))


@cases([3.5, 120.0, 4.0], step=1e-3)
def profile(p):
    return layers(p).sld_profile(np.linspace(-10.0, 150.0, 9))[1]


@cases([1.0, 1e-3])
def smeared(p):
    with use_reflect_backend("python"):
        model = ReflectModel(layers([3.5, 120.0, 4.0]), scale=p[0], bkg=p[1], dq=5.0)
        return np.log10(model(Q))


@cases([0.8, 5.0])
def momentum_transfer(p):
    return general.q(p[0], p[1])


@cases([3.5, 120.0, 4.0], step=1e-3)
def likelihood(p):
    with use_reflect_backend("python"):
        data = Data1D((Q, 1e-3 / Q, 1e-4 / Q))
        return Objective(ReflectModel(layers(p), dq=0), data).logl()


@cases([120.0, 3.5, 4.0], step=1e-3)
def slabs(p):
    w = np.array([[0.0, 0.0, 0.0, 0.0], [p[0], p[1], 0.0, p[2]], [0.0, 2.07, 0.0, 3.0]])
    with use_reflect_backend("python"):
        return np.log10(reflect_model.reflectivity(Q, w, dq=0.0))
