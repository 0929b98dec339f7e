"""``scipy.linalg`` with functions that accept traced values."""

import inspect as _inspect

import wengert.rules.scipy.factorisations
import wengert.rules.scipy.linalg
import wengert.rules.scipy.matrix_functions
import wengert.rules.scipy.reductions  # noqa: F401  (declares the rules)
from wengert import registry as _registry
from wengert.rules.scipy.linalg import la as _la
from wengert.scipy import copies as _copies
from wengert.scipy import namespace as _namespace

_matrices = _copies.second_copy("scipy.linalg._special_matrices")
for _name in "block_diag companion fiedler fiedler_companion leslie".split():
    _registry.composed(getattr(_la, _name), _inspect.unwrap(getattr(_matrices, _name)))  # without loop over batches

_registry.constant(_la.bandwidth, _la.ishermitian, _la.issymmetric)
_registry.constant(
    *[getattr(_la, name) for name in "dft hadamard helmert hilbert invhilbert invpascal pascal".split()], static=True
)

for _name, _reason in {
    **dict.fromkeys(
        ("rsf2csf", "cdf2rdf", "qz", "ordqz"), "it rearranges an iteration's result; use scipy.linalg.eig, eigh or svd"
    ),
    **dict.fromkeys(("qr_delete", "qr_insert", "qr_update"), "use scipy.linalg.qr of the new matrix"),
    "cossin": "use scipy.linalg.svd of the blocks",
    "matrix_balance": "its scales are powers of 2; pass the matrix itself on",
    "expm_cond": "write it with scipy.linalg.expm_frechet",
    "clarkson_woodruff_transform": "its sketch is random; multiply by a plain random matrix",
}.items():
    if _la.has(_name) and callable(getattr(_la, _name)):
        _registry.refuse(getattr(_la, _name), _reason)

#: functions of names and dtypes
_PLAIN = frozenset("find_best_blas_type get_blas_funcs get_lapack_funcs".split())

_namespace.install("linalg")
