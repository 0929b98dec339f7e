"""Dynamic mode decomposition."""

import numpy as np
from pydmd import DMD

from benchmarks.packages.cases import Cases

PACKAGE = "pydmd"
cases = Cases()
TIMES = np.linspace(0.0, 4.0, 12)
SNAPSHOTS = np.array([np.sin(TIMES + k) * np.exp(-0.1 * TIMES) + 0.3 * np.cos(2 * TIMES * k) for k in range(4)])


@cases(SNAPSHOTS)
def eigenvalues(x):
    decomposition = DMD(svd_rank=0)
    decomposition.fit(x)
    return np.sort(abs(decomposition.eigs))


@cases(1.2)
def reconstruction(x):
    decomposition = DMD(svd_rank=2)
    decomposition.fit(SNAPSHOTS * x)
    return np.real(np.sum(decomposition.reconstructed_data[0]))
