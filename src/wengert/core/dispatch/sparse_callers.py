"""Recognises which method of SciPy's sparse arrays is inspecting a traced operand, from the frames on the stack."""

from __future__ import annotations

import sys

#: functions through which SciPy tests the class of an operand; below, the sparse methods that call them
_CLASS_TESTS = frozenset("__instancecheck__ isscalar isscalarlike isdense issparse".split())
MULTIPLY_METHODS = ("multiply", "_multiply_2d_with_broadcasting")
_OPERATOR_METHODS = frozenset(
    "__matmul__ __rmatmul__ _matmul_dispatch _rmatmul_dispatch dot __mul__ __rmul__ _mul_scalar __truediv__ _divide "
    "__add__ __radd__ __sub__ __rsub__".split()
).union(MULTIPLY_METHODS)


def is_class_test(depth=1) -> bool:
    """Return whether a sparse operator is testing the class of its operand, `depth` Python frames up the stack."""
    frame = sys._getframe(depth)
    while frame is not None and frame.f_code.co_name in _CLASS_TESTS:
        frame = frame.f_back
    return is_sparse_code(frame) and frame.f_code.co_name in _OPERATOR_METHODS


def is_sparse_code(frame) -> bool:
    return frame is not None and frame.f_globals.get("__name__", "").startswith("scipy.sparse._")
