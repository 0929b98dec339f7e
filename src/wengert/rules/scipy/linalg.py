"""Linear systems, inverses and determinants of ``scipy.linalg``."""

from __future__ import annotations

import numpy as np

from wengert.registry import leave_unheeded, structural
from wengert.rules.scipy.functions import Functions

la = Functions("scipy.linalg")


def inv_wrt_matrix(ybar, y, a, *, assume_a=None):
    return -np.swapaxes(y, -1, -2) @ ybar @ np.swapaxes(y, -1, -2)


structural(la.inv, inv_wrt_matrix)
leave_unheeded(la.inv, "overwrite_a", "check_finite")
