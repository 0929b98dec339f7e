"""Sound fields of sources and arrays."""

import numpy as np
import sfs

from benchmarks.packages.cases import Cases

PACKAGE = "sfs"
cases = Cases()
GRID = np.array([-1.0, 0.0, 1.0]), np.array([[-0.8], [0.1]]), 0.0


@cases([0.3, 1.6, 0.2])
def point_source(x):
    return np.abs(sfs.fd.source.point(2 * np.pi * 200.0, x, GRID) + 0.1)


@cases([1000.0, 0.4])
def plane_wave(x):
    normal = np.array([np.cos(x[1]), np.sin(x[1]), 0.0])
    return np.real(sfs.fd.source.plane(x[0], [0, 0, 0], normal, GRID))


@cases([0.3, 1.6])
def line_source(x):
    return np.real(sfs.fd.source.line(2 * np.pi * 200.0, x, GRID))
