"""Declares which rules of linear algebra hold unchanged for complex operands (see `wengert.rules.complexes`)."""

from __future__ import annotations

import numpy as np

from wengert.registry import analytic, conjugated, on_complex, strong
from wengert.rules import norms  # noqa: F401  (declares rows that are used here)
from wengert.rules.factors import cholesky_adjoint, packed_qr
from wengert.rules.linalg import as_scalars, det_slope, packed_slogdet
from wengert.rules.spectra import (
    hermitian_pseudo_inverse,
    packed_eig,
    packed_eigh,
    packed_lstsq,
    packed_svd,
    pseudo_inverse,
)

analytic(np.linalg.matrix_power, np.linalg.multi_dot, np.linalg.inv)
analytic(np.linalg.tensorsolve, np.linalg.tensorinv)
analytic(np.linalg.slogdet, np.linalg.qr, np.linalg.eigh, np.linalg.eig, np.linalg.svd)
analytic(np.linalg.cond, np.linalg.pinv, np.linalg.lstsq)
conjugated(np.linalg.norm, np.linalg.vector_norm, np.linalg.matrix_norm)
conjugated(np.linalg.cholesky, cholesky_adjoint, packed_qr)
conjugated(packed_slogdet, packed_eigh, np.linalg.eigvalsh, packed_eig, np.linalg.eigvals)
conjugated(packed_svd, np.linalg.svdvals, pseudo_inverse, hermitian_pseudo_inverse, packed_lstsq)

on_complex(
    np.linalg.det,
    lambda t, y, a: np.sum(strong(t, det_slope(y, a)), axis=(-2, -1)),
    vjp=(lambda ybar, y, a: strong(as_scalars(ybar), np.conj(det_slope(y, a))),),
)
