"""Nonlinear regular water waves."""

import numpy as np
import raschii

from benchmarks.packages.cases import Cases

PACKAGE = "raschii"
cases = Cases()
X = np.array([0.0, 20.0, 45.0])


@cases([1.0, 20.0, 100.0])
def elevation_of_airy_wave(x):
    return raschii.AiryWave(x[0], x[1], x[2]).surface_elevation(X)


@cases([2.0, 25.0, 100.0])
def elevation_of_stokes_wave(x):
    return raschii.StokesWave(x[0], x[1], x[2], N=5).surface_elevation(X)


@cases([2.0, 25.0, 100.0])
def velocity_of_stokes_wave(x):
    return raschii.StokesWave(x[0], x[1], x[2], N=3).velocity(X, np.array([10.0, 12.0, 15.0]))


@cases([2.0, 25.0, 100.0])
def elevation_of_fenton_wave(x):
    return raschii.FentonWave(x[0], x[1], x[2], N=5).surface_elevation(X)
