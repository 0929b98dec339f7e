"""Types of `wengert.numpy`, which are NumPy's."""

from numpy import *
from numpy import (
    char as char,
    ctypeslib as ctypeslib,
    dtypes as dtypes,
    exceptions as exceptions,
    fft as fft,
    lib as lib,
    linalg as linalg,
    ma as ma,
    polynomial as polynomial,
    random as random,
    rec as rec,
    strings as strings,
    testing as testing,
    typing as typing,
)
