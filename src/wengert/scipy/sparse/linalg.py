"""``scipy.sparse.linalg``: systems with traced entries or right-hand sides.

Iterative solvers have the derivative of the exact solution, by a second solution with the transposed matrix, the same
method and the same tolerance.
"""

from __future__ import annotations

import functools as _functools

import numpy as _np
import scipy.sparse as _sparse
import scipy.sparse.linalg as _scipy

from wengert.core.dispatch.matrices import SparseVar as _SparseVar
from wengert.core.dispatch.matrices import _entries_of
from wengert.core.frames import at as _at
from wengert.errors import ConvergenceError as _ConvergenceError
from wengert.errors import UnsupportedFunctionError as _UnsupportedFunctionError
from wengert.rules.scipy import sparse as _rules
from wengert.scipy import namespace as _namespace
from wengert.scipy.sparse.traced import array as _array
from wengert.scipy.sparse.traced import holds_traced as _holds_traced
from wengert.scipy.sparse.traced import if_traced as _if_traced


def _system(A, name):
    """Return the entries, indices and shape of a sparse or dense matrix."""
    if type(A) is _SparseVar or _sparse.issparse(A):
        return (*_entries_of(A), A.shape)
    if isinstance(A, _scipy.LinearOperator) or not hasattr(A, "ndim"):
        raise _UnsupportedFunctionError(
            f"scipy.sparse.linalg.{name} of a LinearOperator has no derivative rule{_at()}: pass a sparse array"
        )
    row, col = map(_np.ravel, _np.indices(_np.shape(A)))
    return _np.ravel(A), row, col, _np.shape(A)


def _solved(A, b, name, solve):
    """Solve a system by SciPy's ``solve(A, b)``, for one right-hand side or several."""
    entries, row, col, shape = _system(A, name)
    if type(b) is _SparseVar or _sparse.issparse(b):
        raise _UnsupportedFunctionError(
            f"scipy.sparse.linalg.{name} with a sparse right-hand side has no derivative rule{_at()}: pass b.toarray()"
        )
    b = _array(b)
    column = _np.ndim(b) == 2 and _np.shape(b)[1] == 1
    return _rules.solution(entries * 1.0, _np.reshape(b, -1) if column else b, _rules.Pattern(row, col, shape, solve))


@_if_traced(_scipy)
def spsolve(A, b, permc_spec=None, use_umfpack=True):
    options = {"permc_spec": permc_spec, "use_umfpack": use_umfpack}
    return _solved(A, b, "spsolve", lambda A, b: _scipy.spsolve(A, b, **options))


@_if_traced(_scipy)
def spsolve_triangular(A, b, lower=True, overwrite_A=False, overwrite_b=False, unit_diagonal=False):
    if unit_diagonal:
        raise _UnsupportedFunctionError(
            f"scipy.sparse.linalg.spsolve_triangular with unit_diagonal= has no derivative rule{_at()}: store the "
            "diagonal"
        )

    def solve(A, b):
        return _scipy.spsolve_triangular(A.tocsr(), b, lower=not _sparse.triu(A, 1).nnz)

    entries, row, col, shape = _system(A, "spsolve_triangular")
    kept = col <= row if lower else col >= row
    return _rules.solution(entries[kept] * 1.0, b, _rules.Pattern(row[kept], col[kept], shape, solve))


def _iterative(name):
    """Return an iterative solver that accepts traced values."""
    original = getattr(_scipy, name)

    @_functools.wraps(original, updated=())
    def call(A, b, *args, **options):
        if not _holds_traced((A, b, *args, *options.values())):
            return original(A, b, *args, **options)
        if _holds_traced((*args, *options.values())):
            raise _UnsupportedFunctionError(
                f"scipy.sparse.linalg.{name} has a derivative in A and b only{_at()}: pass wengert.stop_gradient(x0)"
            )

        def solve(A, b):
            if b.ndim == 2:
                return _np.stack([solve(A, column) for column in b.T], axis=1)
            x, info = original(A, b, *args, **options)
            if info != 0:
                raise _ConvergenceError(
                    f"scipy.sparse.linalg.{name} has not converged (info={info}): raise maxiter=, or pass a "
                    "preconditioner"
                )
            return x

        return _solved(A, b, name, solve), 0

    return call


for _name in "bicg bicgstab cg cgs gcrotmk gmres lgmres minres qmr tfqmr".split():
    globals()[_name] = _iterative(_name)


class SuperLU:
    """LU factors of a sparse matrix, for traced right-hand sides or entries."""

    def __init__(self, factors, system=None, solve=None):
        self._plain, self._system, self._solve = factors, system, solve

    def solve(self, rhs, trans="N"):
        if self._system is not None:
            entries, row, col, shape = self._system
            pattern = _rules.Pattern(row, col, shape, self._solve)
            return _rules.solution(entries * 1.0, rhs, pattern if trans == "N" else pattern.transposed)
        if not _holds_traced(rhs):
            return self._plain.solve(rhs, trans)
        if not _np.isrealobj(self._plain.U.data):
            raise _UnsupportedFunctionError(
                f"SuperLU.solve with complex factors has no derivative rule{_at()}: use scipy.sparse.linalg.spsolve"
            )
        turned = {"N": "T", "T": "N", "H": "N"}[trans]
        return _rules.applied(rhs, lambda b: self._plain.solve(b, trans), lambda b: self._plain.solve(b, turned))

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_plain"), name)


def _factors(name):
    original = getattr(_scipy, name)

    @_functools.wraps(original, updated=())
    def call(A, *args, **options):
        if not _holds_traced(A):
            return SuperLU(original(A, *args, **options))
        return SuperLU(None, _system(A, name), lambda A, b: original(A, *args, **options).solve(b))

    return call


splu = _factors("splu")
if hasattr(_scipy, "SuperLU"):
    _namespace.register_conversion(_scipy.SuperLU, SuperLU)


@_functools.wraps(_scipy.factorized, updated=())
def factorized(A):
    return splu(A).solve


@_if_traced(_scipy)
def expm_multiply(A, B, start=None, stop=None, num=None, endpoint=None, traceA=None):
    if _holds_traced(A) or start is not None:
        raise _UnsupportedFunctionError(
            f"scipy.sparse.linalg.expm_multiply has a derivative in B only{_at()}: use "
            "scipy.linalg.expm(A.toarray()) @ B"
        )
    return _rules.applied(
        B, lambda b: _scipy.expm_multiply(A, b), lambda b: _scipy.expm_multiply(A.conj().T.tocsc(), b)
    )


@_if_traced(_scipy)
def norm(x, ord=None, axis=None):
    return _np.linalg.norm(x.toarray(), ord, axis)


def _refusing(name, remedy):
    original = getattr(_scipy, name)

    @_functools.wraps(original, updated=())
    def call(*args, **options):
        if _holds_traced((*args, *options.values())):
            raise _UnsupportedFunctionError(f"scipy.sparse.linalg.{name} has no derivative rule{_at()}: {remedy}")
        return original(*args, **options)

    return call


for _name, _remedy in {
    "eigs": "use numpy.linalg.eig(A.toarray())",
    "eigsh": "use numpy.linalg.eigh(A.toarray())",
    "expm": "use scipy.linalg.expm(A.toarray())",
    "inv": "use spsolve, or numpy.linalg.inv(A.toarray())",
    "lobpcg": "use numpy.linalg.eigh(A.toarray())",
    "lsmr": "solve the normal equations with spsolve, or use numpy.linalg.lstsq(A.toarray(), b)",
    "lsqr": "solve the normal equations with spsolve, or use numpy.linalg.lstsq(A.toarray(), b)",
    "matrix_power": "write the products A @ A",
    "onenormest": "use norm(A, 1)",
    "spilu": "use splu",
    "svds": "use numpy.linalg.svd(A.toarray())",
}.items():
    if hasattr(_scipy, _name):
        globals()[_name] = _refusing(_name, _remedy)

_PLAIN = frozenset(
    "ArpackError ArpackNoConvergence LaplacianNd LinearOperator MatrixRankWarning aslinearoperator "
    "funm_multiply_krylov is_sptriangular spbandwidth use_solver".split()
)

_namespace.install("sparse.linalg")
