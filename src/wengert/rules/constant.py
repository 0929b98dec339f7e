"""Functions of zero derivative, and functions without a derivative.

A function is constant here only if it is locally constant in every real argument: its result is then a plain array.
A refusal says why there is no derivative and what to write instead.
"""

from __future__ import annotations

import numpy as np

from wengert.dependence import Along, Reduced
from wengert.features import fix
from wengert.registry import constant, facts, refuse
from wengert.rules.complexes import unit

# ---- step functions: rounding, signs, ulps

constant(np.sign, on_complex=unit)
constant(np.floor, np.ceil, np.trunc, np.rint, np.floor_divide, np.spacing)
constant(np.round, np.around, *fix)

# ---- comparisons and tests

constant(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
constant(np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
constant(np.isnan, np.isinf, np.isfinite, np.isnat, np.signbit, np.isposinf, np.isneginf)
constant(np.isclose, np.allclose, np.array_equal, np.array_equiv, np.isin, np.any, np.all)
constant(np.iscomplex, np.isreal)
constant(np.iscomplexobj, np.isrealobj, np.isscalar, static=True)

# ---- functions of integers

constant(np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.left_shift, np.right_shift)
constant(np.bitwise_count, np.gcd, np.lcm, np.packbits, np.unpackbits)
constant(np.busday_count, np.busday_offset, np.is_busday)

# ---- positions and counts

constant(np.argmax, np.argmin, np.nanargmax, np.nanargmin, np.argsort, np.argpartition, np.lexsort)
constant(np.searchsorted, np.digitize, np.nonzero, np.flatnonzero, np.argwhere, np.count_nonzero)
constant(np.linalg.matrix_rank)

facts(np.any, np.all, np.argmax, np.argmin, dependence=Reduced(), batching=True)
facts(np.any, scalars="any")
facts(np.all, scalars="all")
facts(np.argsort, dependence=Along(), batching=True)
for name in "argsort argmax argmin searchsorted digitize count_nonzero allclose isposinf isneginf".split():
    facts(getattr(np, name), native=name)
facts(np.round, np.around, native="round")
facts(np.isfinite, lowering="finite")
facts(np.isinf, lowering="infinite")
facts(np.bitwise_and, lowering="and")
facts(np.bitwise_or, lowering="or")
facts(np.invert, lowering="not")

# ---- results whose derivative is zero although they depend on traced values

facts(np.sign, np.signbit, np.less, np.less_equal, np.greater, np.greater_equal, watch="sign")
facts(np.equal, np.not_equal, np.array_equal, np.array_equiv, np.isclose, np.allclose, watch="equality")
facts(np.isin, watch="membership")
facts(np.round, np.around, watch="rounding")
facts(np.nonzero, np.flatnonzero, np.argwhere, watch="shape")

# ---- shapes, dtypes, memory, text

constant(np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.common_type, static=True)
constant(np.may_share_memory, np.shares_memory, np.einsum_path, static=True)
constant(np.tril_indices_from, np.triu_indices_from, np.diag_indices_from, static=True)
constant(np.min_scalar_type, np.array_repr, np.array_str, np.array2string)
facts(np.array_repr, np.array_str, np.array2string, watch="text")
facts(np.may_share_memory, np.shares_memory, watch="memory")

# ---- no derivative

SETS = "the selection of equal elements is discontinuous in the values; "
for fun in (
    *(np.intersect1d, np.setdiff1d, np.setxor1d),
    *(np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values),
):
    refuse(fun, SETS + "find their indices with wengert.stop_gradient(x) and index x by them")
