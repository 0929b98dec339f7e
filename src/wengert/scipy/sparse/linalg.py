"""``scipy.sparse.linalg``: systems with traced entries or right-hand sides.

Iterative solvers have the derivative of the exact solution.  It is found by the same method, with the transposed
matrix and a tolerance of at most 1e-10.
"""

import functools as _functools
import operator as _operator

import numpy as _np
import scipy.sparse as _sparse
import scipy.sparse.linalg as _scipy

from wengert import api as _api
from wengert.core.dispatch import sparse_arrays as _arrays
from wengert.core.dispatch.dispatch import from_list as _from_list
from wengert.core.frames import at as _at
from wengert.core.levels import is_tracing as _is_tracing
from wengert.core.operands import var as _var
from wengert.deferred import deferred as _deferred
from wengert.errors import ConvergenceError as _ConvergenceError
from wengert.errors import UnsupportedFunctionError as _UnsupportedFunctionError
from wengert.implicit import theorem as _theorem
from wengert.implicit.stripped import stripped as _stripped
from wengert.rules.scipy import sparse as _rules
from wengert.scipy import copies as _copies
from wengert.scipy import namespace as _namespace
from wengert.scipy import objects as _objects
from wengert.scipy.sparse.traced import holds_traced as _holds_traced
from wengert.scipy.sparse.traced import if_traced as _if_traced
from wengert.scipy.standin import StandIn as _StandIn

_linalg = _deferred("wengert.scipy.linalg")  # few programs need it, and it takes long to import


def _entries(A):
    """Return the entries, indices and shape of a sparse or dense matrix, and SciPy's format for it."""
    if type(A) is _arrays.SparseVar or _sparse.issparse(A):
        return *_arrays.entries_of(A), A.shape, A.format if A.format in ("csr", "csc") else "csc"
    A = _from_list(A)
    row, col = map(_np.ravel, _np.indices(_np.shape(A)))
    return _np.ravel(A), row, col, _np.shape(A), "csc"


def _solved(A, b, name, solve, is_direct=False, solve_derived=None):
    """Solve a system by SciPy's ``solve(A, b)``, for one right-hand side or several."""
    entries, *pattern = _entries(A)
    if type(b) is _arrays.SparseVar or _sparse.issparse(b):
        raise _UnsupportedFunctionError(
            f"scipy.sparse.linalg.{name} with a sparse right-hand side has no derivative rule{_at()}: pass b.toarray()"
        )
    b = _from_list(b)
    column = _np.ndim(b) == 2 and _np.shape(b)[1] == 1
    row, col, shape, format = pattern
    pattern = _rules.Pattern(row, col, shape, solve, format, is_direct, solve_derived)
    return _rules.solution(entries * 1.0, _np.reshape(b, -1) if column else b, pattern)


@_if_traced(_scipy)
def spsolve(A, b, permc_spec=None, use_umfpack=True):
    options = {"permc_spec": permc_spec, "use_umfpack": use_umfpack}
    return _solved(A, b, "spsolve", lambda A, b: _scipy.spsolve(A, b, **options), True)


@_if_traced(_scipy)
def spsolve_triangular(A, b, lower=True, overwrite_A=False, overwrite_b=False, unit_diagonal=False):
    entries, row, col, shape, _ = _entries(A)
    if unit_diagonal:
        kept, n = (col < row if lower else col > row), shape[0]
        entries = _np.concatenate([entries[kept] * 1.0, _np.ones(n)])
        row, col = _np.r_[row[kept], _np.arange(n)], _np.r_[col[kept], _np.arange(n)]
    kept = col <= row if lower else col >= row

    def solve(A, b):
        return _scipy.spsolve_triangular(A, b, lower=not _sparse.triu(A, 1).nnz)

    pattern = _rules.Pattern(row[kept], col[kept], shape, solve, "csr")
    return _rules.solution(entries[kept] * 1.0, _from_list(b), pattern)


# ---- linear operators

_operators = _copies.second_copy("scipy.sparse.linalg._interface")
LinearOperator, aslinearoperator = _operators.LinearOperator, _operators.aslinearoperator
_objects.register_objects(
    *(
        f"scipy.sparse.linalg._interface.{name}"
        for name, cls in vars(_operators).items()
        if isinstance(cls, type) and issubclass(cls, LinearOperator) and cls is not LinearOperator
    )
)


def _is_operator(A):
    return isinstance(A, (LinearOperator, _scipy.LinearOperator)) or not hasattr(A, "ndim")


def _product(A):
    """Return the function of a vector that an operator computes, without SciPy's wrapper for plain vectors."""
    is_users = isinstance(A, _scipy.LinearOperator) and not isinstance(A, LinearOperator)
    return A._matvec if is_users else A.matvec


def _transposed_product(A, y):
    return _api.vjp(_product(A), _np.zeros(A.shape[1]))[1](y)


def _plain_operator(A):
    """Return an operator on plain vectors; if it has no adjoint, with the adjoint of its derivative."""

    def adjoint(y):
        try:
            return _var.plain(A.rmatvec(y))
        except NotImplementedError:
            return _theorem.plain_function(_transposed_product)(A, y)

    matvec = _theorem.plain_function(_product(A))
    return _scipy.LinearOperator(A.shape, matvec, _theorem.plain_function(adjoint), dtype=_np.float64)


def _solved_by_operator(A, b, name, solve, solve_derived):
    """Solve a system whose matrix is known by its products only; the adjoint system is solved by the same method."""
    b = _np.reshape(_from_list(b), -1)
    plain, product = _plain_operator(A), _product(A)
    x = solve(plain, _var.plain(b))

    def residual(x):
        return product(x) - b

    def linsolve(A, b):
        return solve_derived(A, b, A is not plain)

    name = f"scipy.sparse.linalg.{name}"
    return _theorem.implicit(residual, x, name=name, jac=lambda x: plain, linsolve=linsolve, polish=False)[0]


def _iterative(name):
    """Return an iterative solver that accepts traced values."""
    original = getattr(_scipy, name)

    @_functools.wraps(original, updated=())
    def call(A, b, *args, **options):
        is_operator = _is_operator(A)
        if not is_operator and not _holds_traced((A, b, *args, *options.values())):
            return original(A, b, *args, **options)
        if is_operator and not _is_tracing():
            return original(A, b, *args, **options)
        # the start and the preconditioner change how fast the iterations converge, not what they converge to
        options = {key: _stripped(value) for key, value in (options | dict(zip(("x0",), args))).items()}

        def solve(A, b, options=options):
            if b.ndim == 2:
                return _np.stack([solve(A, column, options) for column in b.T], axis=1)
            x, info = original(A, b, **options)
            if info != 0:
                raise _ConvergenceError(
                    f"scipy.sparse.linalg.{name} has not converged (info={info}): raise maxiter=, or pass a "
                    "preconditioner"
                )
            return x

        def solve_derived(A, b, is_transposed):
            changed = {"x0": None, "callback": None, "rtol": min(options.get("rtol", 1e-5), 1e-10)}
            if is_transposed:
                changed |= {key: _transposed(M) for key, M in options.items() if key[0] == "M"}
            return solve(A, b, {key: value for key, value in (options | changed).items() if value is not None})

        if is_operator:
            return _solved_by_operator(A, b, name, solve, solve_derived), 0
        return _solved(A, b, name, solve, solve_derived=solve_derived), 0

    return call


def _transposed(M):
    """Return the transpose of a preconditioner; an operator without an adjoint is returned unchanged."""
    if M is None or not _is_operator(M):
        return None if M is None else M.T
    try:
        M.rmatvec(_np.zeros(M.shape[0]))
    except NotImplementedError:
        return M
    return M.T


for _name in "bicg bicgstab cg cgs gcrotmk gmres lgmres minres qmr tfqmr".split():
    globals()[_name] = _iterative(_name)


def _least_squares(name, others_of):
    """Return a least-squares solver; `others_of` describes its further results: "" a count, "r", "r2", "x" a norm."""
    original = getattr(_scipy, name)

    @_if_traced(_scipy, name)
    def call(A, b, damp=0.0, *args, **options):
        if _is_operator(A) or _holds_traced((*args, *options.values())) or "x0" in options:
            raise _UnsupportedFunctionError(
                f"scipy.sparse.linalg.{name} has a derivative in the entries of A, in b and in damp, without x0="
                f"{_at()}: pass a sparse array"
            )
        entries, row, col, (rows, n), format = _entries(A)
        b, m = _from_list(b), rows
        found = []

        def solve(A, b):
            """Solve the system itself as SciPy does, and the systems of derivatives as accurately as possible."""
            if found:
                return original(A, b, 0.0, 1e-14, 1e-14, 0.0, 10 * max(A.shape))[0]
            found.append(original(*plain_system, *args, **options))
            return found[0][0]

        A_plain = _sparse.coo_array((_var.plain(entries), (row, col)), (m, n)).asformat(format)
        plain_system = A_plain, _var.plain(b), _var.plain(damp)
        if _var.is_traced(damp) or damp:
            entries = _np.concatenate([entries * 1.0, damp * _np.ones(n)])
            row, col = _np.r_[row, m + _np.arange(n)], _np.r_[col, _np.arange(n)]
            b, m = _np.concatenate([b, _np.zeros(n)]), m + n
        pattern = _rules.Pattern(row, col, (m, n), solve, format)
        x = _rules.least_squares(entries * 1.0, b, pattern)
        if found[0][1] == 7:
            raise _ConvergenceError(f"scipy.sparse.linalg.{name} has not converged: raise its limit of iterations")
        r = b - _rules.product_at(pattern, entries, x)
        exact = {"r": _np.linalg.norm(r[:rows]), "r2": _np.linalg.norm(r), "x": _np.linalg.norm(x)}

        def differentiable(of, value):
            if of in exact:
                return _namespace.with_value(exact[of], value)
            return _rules.estimate(entries, b, value) if of else value

        return (x, *map(differentiable, others_of, found[0][1:]))

    return call


lsqr = _least_squares("lsqr", ("", "", "r", "r2", "estimate", "estimate", "estimate", "x", "estimate"))
lsmr = _least_squares("lsmr", ("", "", "r2", "estimate", "estimate", "estimate", "x"))


# ---- eigenvalues and singular values


def _pattern(row, col, shape, format="csc"):
    return _rules.Pattern(row, col, shape, None, format)


def _seeded(rng):
    """Return the generator of ARPACK's start and restart vectors: by default one that gives the same in each replay."""
    return _np.random.default_rng(0) if rng is None else rng


def _ranked_like(values, reference):
    """Return the indices that bring `values` into the rank order of `reference`."""
    return _np.argsort(values)[_np.argsort(_np.argsort(reference))]


@_if_traced(_scipy)
def eigsh(A, k=6, M=None, sigma=None, which="LM", v0=None, ncv=None, maxiter=None, tol=0, return_eigenvectors=True,
          Minv=None, OPinv=None, mode="normal", rng=None):
    options = {"sigma": sigma, "which": which, "v0": v0, "ncv": ncv, "maxiter": maxiter, "tol": tol, "mode": mode}
    if _is_operator(A) or (M is not None and _is_operator(M)) or Minv is not None or OPinv is not None:
        raise _UnsupportedFunctionError(
            f"scipy.sparse.linalg.eigsh has a derivative in the entries of sparse arrays A and M{_at()}: pass these, "
            "without Minv= and OPinv="
        )
    if _holds_traced([*options.values()]):
        raise _UnsupportedFunctionError(
            f"scipy.sparse.linalg.eigsh has a derivative in A and M only{_at()}: pass wengert.stop_gradient(sigma)"
        )

    def compute(A, M):
        w, v = _scipy.eigsh(A, k, M, rng=_seeded(rng), **options)
        if return_eigenvectors:
            return _np.vstack([w, v])
        values = _scipy.eigsh(A, k, M, rng=_seeded(rng), return_eigenvectors=False, **options)  # sorted differently
        return _np.vstack([values, v[:, _ranked_like(w, values)]])

    entries, *pattern = _entries(A)
    mass_entries, *mass = (_np.zeros(0),) if M is None else _entries(M)
    spectrum = _rules.Spectrum(_pattern(*pattern), compute, _pattern(*mass) if mass else None)
    w = _rules.eigenvalues(entries * 1.0, mass_entries * 1.0, spectrum)
    if not return_eigenvectors:
        return w
    return w, _rules.eigenpairs(entries * 1.0, mass_entries * 1.0, spectrum)[1:]


@_if_traced(_scipy)
def svds(A, k=6, ncv=None, tol=0, which="LM", v0=None, maxiter=None, return_singular_vectors=True, solver="arpack",
         rng=None, options=None):
    if _is_operator(A):
        raise _UnsupportedFunctionError(
            f"scipy.sparse.linalg.svds has a derivative in the entries of A{_at()}: pass a sparse array"
        )
    given = {"ncv": ncv, "tol": tol, "which": which, "v0": v0, "maxiter": maxiter, "solver": solver, "options": options}

    def compute(A, M):
        u, s, vh = _scipy.svds(A, k, rng=_seeded(rng), **given)
        if return_singular_vectors is not False:
            return _np.vstack([s, u, vh.T])
        values = _scipy.svds(A, k, rng=_seeded(rng), return_singular_vectors=False, **given)
        order = _ranked_like(s, values)
        return _np.vstack([values, u[:, order], vh.T[:, order]])

    entries, row, col, shape, format = _entries(A)
    spectrum = _rules.Spectrum(_pattern(row, col, shape, format), compute)
    s = _rules.singular_values(entries * 1.0, spectrum)
    if return_singular_vectors is False:
        return s
    z = _rules.singular_triplets(entries * 1.0, spectrum)
    u, vh = z[1 : shape[0] + 1], z[shape[0] + 1 :].T
    return (None if return_singular_vectors == "vh" else u), s, (None if return_singular_vectors == "u" else vh)


# ---- factors


class SuperLU(_StandIn, of=_scipy.SuperLU):
    """LU factors of a sparse matrix, for traced right-hand sides or entries."""

    def __init__(self, factors, system=None):
        self._plain, self._system = factors, system

    def solve(self, rhs, trans="N"):
        if self._system is not None:
            entries, pattern = self._system
            return _rules.solution(entries, _from_list(rhs), pattern if trans == "N" else pattern.transposed)
        if not _holds_traced(rhs):
            return self._plain.solve(rhs, trans)
        solve = self._plain.solve
        adjoint = {
            "N": lambda b: solve(b, "H"),
            "T": lambda b: _np.conj(solve(_np.conj(b))),
            "H": solve,
        }[trans]
        return _rules.applied(rhs, lambda b: solve(b, trans), adjoint)

    def __getattr__(self, name):
        if name in ("L", "U") and self._system is not None:
            raise _UnsupportedFunctionError(
                f"SuperLU.{name} of a matrix with traced entries has no derivative rule{_at()}: use its solve, or "
                "numpy.linalg.slogdet(A.toarray()) for the determinant"
            )
        return getattr(object.__getattribute__(self, "_plain"), name)


class _Factorised:
    """Solves systems with one matrix by SciPy's factors, which are computed once."""

    def __init__(self, factorise, args, options):
        self._factorise = lambda A: factorise(A, *args, **options)
        self._last = None

    def __call__(self, A, b):
        if self._last is None or not _np.array_equal(self._last[0], A.data):
            self._last = A.data.copy(), self._factorise(A)
        return self._last[1].solve(b)


def _factors(name):
    original = getattr(_scipy, name)

    @_functools.wraps(original, updated=())
    def call(A, *args, **options):
        if not _holds_traced(A):
            return SuperLU(original(A, *args, **options))
        entries, row, col, shape, format = _entries(A)
        pattern = _rules.Pattern(row, col, shape, None, format, True)
        pattern.solve = _Factorised(original, args, options)
        return SuperLU(None, (entries * 1.0, pattern))

    return call


splu = _factors("splu")
_objects.register_conversion(_scipy.SuperLU, SuperLU)


@_functools.wraps(_scipy.factorized, updated=())
def factorized(A):
    return splu(A).solve


def _dense(A):
    return A.toarray() if type(A) is _arrays.SparseVar or _sparse.issparse(A) else _from_list(A)


def _expm_multiply(A, B, *options):
    return _scipy.expm_multiply(_sparse.csc_array(A), B, *options)


@_if_traced(_scipy)
def expm_multiply(A, B, start=None, stop=None, num=None, endpoint=None, traceA=None):
    if not _holds_traced(A) and start is None:
        return _rules.applied(
            B, lambda b: _scipy.expm_multiply(A, b), lambda b: _scipy.expm_multiply(A.conj().T.tocsc(), b)
        )
    value = _namespace.computed(_expm_multiply, _dense(A), B, start, stop, num, endpoint, traceA)
    A = _dense(A)
    if start is None:
        return _namespace.with_value(_linalg.expm(A) @ B, value)
    times = _np.linspace(start, stop, 50 if num is None else num, endpoint=True if endpoint is None else endpoint)
    return _namespace.with_value(_np.stack([_linalg.expm(t * A) @ B for t in times]), value)


@_if_traced(_scipy)
def norm(x, ord=None, axis=None):
    return _np.linalg.norm(x.toarray(), ord, axis)


def _of_dense(name, fun):
    """Return a function of a dense matrix, applied to a sparse one; the result has no sparsity."""
    original = getattr(_scipy, name)

    @_if_traced(_scipy, name)
    def call(A, *args):
        if type(A) is not _arrays.SparseVar:
            return fun(A, *args)

        def plain(A_dense):
            y = original(A.cls(A_dense), *args)
            return y.toarray() if _sparse.issparse(y) else y

        y = _namespace.with_value(fun(_dense(A), *args), _namespace.computed(plain, _dense(A)))
        row, col = map(_np.ravel, _np.indices(A.shape))
        return _arrays.made(_np.ravel(y), row, col, A.shape, _arrays.class_of(A))

    return call


expm, inv = (_of_dense(name, lambda A, name=name: getattr(_linalg, name)(A)) for name in ("expm", "inv"))


@_if_traced(_scipy)
def matrix_power(A, power):
    if power < 0:
        return matrix_power(inv(A), -power)
    return _functools.reduce(_operator.matmul, [A] * power) if power else _sparse.eye_array(A.shape[0])


def _refusing(name, remedy):
    original = getattr(_scipy, name)

    @_functools.wraps(original, updated=())
    def call(*args, **options):
        if _holds_traced((*args, *options.values())):
            raise _UnsupportedFunctionError(f"scipy.sparse.linalg.{name} has no derivative rule{_at()}: {remedy}")
        found = original(*args, **options)
        return SuperLU(found) if isinstance(found, _scipy.SuperLU) else found

    call._wengert_remedy = remedy
    return call


for _name, _remedy in {
    "eigs": "use numpy.linalg.eig(A.toarray())",
    "lobpcg": "use eigsh",
    "onenormest": "use norm(A, 1)",
    "spilu": "use splu; for a preconditioner factorise wengert.stop_gradient(A)",
}.items():
    globals()[_name] = _refusing(_name, _remedy)

_PLAIN = frozenset(
    "ArpackError ArpackNoConvergence LaplacianNd MatrixRankWarning "
    "funm_multiply_krylov is_sptriangular spbandwidth use_solver".split()
)

_namespace.install("sparse.linalg")
