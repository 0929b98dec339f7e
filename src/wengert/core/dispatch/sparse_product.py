"""Products of a constant SciPy sparse array and a traced vector or matrix: one linear primitive."""

from __future__ import annotations

import sys

import numpy as np

from wengert import registry
from wengert.core.dispatch.dispatch import apply
from wengert.core.frames import at
from wengert.core.operands import var
from wengert.dependence import Contraction
from wengert.errors import UnsupportedFunctionError
from wengert.registry import strong


def is_sparse(x) -> bool:
    """Return whether `x` is a SciPy sparse array or matrix with untraced entries. Never imports SciPy."""
    module = sys.modules.get("scipy.sparse")
    return module is not None and issubclass(type(x), (module.sparray, module.spmatrix))


def product(matrix, x):
    """Return ``A @ x`` for a sparse array and a vector or matrix."""
    check_product(matrix, x)
    if matrix.ndim == 1:
        return times(x, _as_row_matrix(matrix))[0]
    return times(x, matrix)


def transposed_product(matrix, x):
    """Return ``x @ A`` for a sparse array and a vector or matrix."""
    check_product(matrix, x)
    if matrix.ndim == 1:
        return np.transpose(times(np.transpose(x), _as_row_matrix(matrix)))[..., 0]
    return np.transpose(times(np.transpose(x), matrix.transpose()))


def _as_row_matrix(vector):
    return vector.reshape(1, -1).tocsr()


def check_product(matrix, x):
    if not np.ndim(x):
        raise ValueError("Scalar operands are not allowed, use '*' instead")
    if matrix.ndim > 2 or np.ndim(x) > 2:
        raise UnsupportedFunctionError(
            f"the product of a sparse array of shape {matrix.shape} and a traced array of shape {np.shape(x)} has no "
            f"derivative rule{at()}: use matrices and vectors, or make the sparse array A dense with A.toarray()"
        )


def times(x, matrix):
    """Return ``A @ x`` for a sparse matrix and a vector or matrix, traced or plain."""
    if not var.holds_traced(x):
        return matrix @ var.plain(x)
    if matrix.format in ("lil", "dok"):
        matrix = matrix.tocsr()
    elif not var.level_of(x).is_forward:
        matrix = matrix.copy()  # f may modify it before the pullback runs
    return apply(_times_row, times, (x, matrix), {})


def _apply_to_last_axes(z, matrix, ndim):
    """Apply the matrix along the last `ndim` axes of `z`; leading axes are directions. Here 0 * inf is 0."""
    lead, core = np.shape(z)[: np.ndim(z) - ndim], np.shape(z)[np.ndim(z) - ndim :]
    if not lead:
        return _strong_times(z, matrix)
    if not np.prod(core) or not matrix.shape[0]:
        return np.zeros((*lead, matrix.shape[0], *core[1:]))
    beside = np.reshape(np.moveaxis(np.reshape(z, (-1, *core)), 0, -1), (core[0], -1))
    found = np.reshape(_strong_times(beside, matrix), (matrix.shape[0], *core[1:], -1))
    return np.reshape(np.moveaxis(found, -1, 0), (*lead, matrix.shape[0], *core[1:]))


def _strong_times(z, matrix):
    y = times(z, matrix)
    if not np.isnan(np.vdot(y, y)):
        return y
    coo = matrix.tocoo()
    entries = coo.data[:, None] if np.ndim(z) == 2 else coo.data
    return times(strong(z[coo.col], entries), summation_matrix(coo.row, matrix.shape[0]))


def summation_matrix(places, n):
    """Return the matrix that sums the entries with equal index in `places` into a vector of length `n`."""
    from scipy.sparse import csc_array

    count = len(places)
    return csc_array((np.ones(count), np.asarray(places), np.arange(count + 1)), shape=(n, count))


def _pull(ybar, y, x, matrix):
    lead = np.shape(ybar)[: np.ndim(ybar) - np.ndim(y)]
    ybar = np.reshape(ybar, lead + matrix.shape[:1] + np.shape(x)[1:])
    return _apply_to_last_axes(ybar, matrix.transpose(), np.ndim(x))


def _push(t, y, x, matrix):
    found = _apply_to_last_axes(t, matrix, np.ndim(x))
    return np.reshape(found, np.shape(t)[: np.ndim(t) - np.ndim(x)] + np.shape(y))


def _labels(ndim, x, matrix):
    count = ndim(x)
    return (matrix, x), [[0, 1], [1, 2][:count]], [0, 2][:count]


# The product of a one-row COO matrix and a vector is a scalar, so _pull and _push reshape explicitly.
_times_row = registry.Primitive(
    "scipy.sparse product",
    "linear",
    vjps={0: _pull},
    jvps={0: _push},
    home=f"{__name__}._times_row",
    stacked=True,
    dependence=Contraction(_labels),
    curvature="none",
    on_complex=True,
)
