"""Sparsity detection: patterns of the Jacobian or the Hessian of a program by propagation of index sets.

Each instruction propagates the index sets of its operands (`propagation`). A pattern may have too many entries, never
too few.

The pattern of second derivatives consists of the nonlinear interactions in the same program. It needs no derivative
program and is symmetric by construction. The pattern of the gradient's Jacobian would be no tighter, since adjoints
depend on exactly the values that interact later.

References
----------
Griewank and Walther (2008), Evaluating Derivatives, section 7.1. doi:10.1137/1.9780898717761
Walther (2008), Computing sparse Hessians with automatic differentiation. doi:10.1145/1322436.1322439
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.errors import GuardError, PatternError
from wengert.program.derivatives import NotDerivable
from wengert.program.ir.ir import kind_of
from wengert.program.program import Program
from wengert.program.record import record
from wengert.program.signature import Form, as_inputs
from wengert.sparse.indexsets import Sets, interactions
from wengert.sparse.propagation import KnownValues, Propagation, curvature
from wengert.sparse.recovery import differing, direction

#: number of nearby points at which differences are computed again, and the relative change above which a difference is
#: a rounding error, not a missing entry
NEARBY_POINTS, MAX_RELATIVE_CHANGE = 16, 0.03


# ---------------------------------------------------------------------------------------------- entry points


def sparsity(f: Callable, x: Any, order: int, kind: str, args: tuple, kwargs: dict | None, argnums: int) -> Any:
    """Pattern of the first or second derivatives of `f`: see `wengert.sparsity`."""
    if order not in (1, 2):
        raise ValueError(f"sparsity: order is 1 for a Jacobian or 2 for a Hessian, not {order!r}")
    if kind not in ("global", "local"):
        raise ValueError(f"sparsity: kind is 'global' or 'local', not {kind!r}")
    kwargs = kwargs or {}
    given = (x, *args)
    if isinstance(argnums, (int, np.integer)) and -len(given) <= argnums < 0:
        argnums += len(given)
    if isinstance(f, Program):
        program = f
        form = Form((as_inputs(x, repr(f)), *args), kwargs)
        if [np.shape(leaf) for leaf in form.leaves] != [np.shape(leaf) for leaf in program._form.leaves]:
            raise ValueError(f"sparsity: {program!r} was recorded for arguments of other shapes: record it for these")
        leaves = form.leaves
    else:
        program = program_of(f, given, kwargs)
        leaves = program._example
    return pattern_of(program, argnums, order, None if kind == "global" else leaves)


def program_of(f: Callable, args: tuple, kwargs: dict) -> Program:
    """Record a function as a program; variables that a compiled function reads from outside become inputs."""
    is_compiled = hasattr(type(f), "__wengert__")
    inner = f.f if is_compiled else f
    found = record(inner, args, kwargs, False, is_live=is_compiled)
    if type(found) is not Program:  # f is a transformed function: differentiate it without its program
        found = record(lambda *args, **kwargs: inner(*args, **kwargs), args, kwargs, False)
    return found


def pattern_of(program: Program, argnums: int = 0, order: int = 1, leaves: list | None = None) -> Any:
    """Pattern of a program's derivatives with respect to one argument.

    Parameters
    ----------
    program : Program
        Its result is one array or scalar.
    argnums : int
        Position of the argument, an array or scalar.
    order : {1, 2}
    leaves : list, optional
        Inputs of the program at a point; the pattern then covers only the branches taken there.

    Returns
    -------
    scipy.sparse.csr_array of bool
        Shape ``(y.size, x.size)``, for order 2 ``(x.size, x.size)`` and symmetric; indices are sorted.
    """
    if type(program) is not Program:
        program._differentiable("sparsity")
    code = program._one_array("sparsity")
    dtype = kind_of(code, code.outputs[0])[0]
    if dtype.kind == "O":
        raise NotDerivable(f"sparsity({program._name}): the result is of dtype {dtype}: return floats")
    x = code.inputs[program._input("sparsity", argnums)]
    return pattern_of_ir(code, x, code.outputs[0], order, leaves)


def pattern_of_ir(code: Any, x: int, y: int, order: int = 1, leaves: list | None = None) -> Any:
    """Like `pattern_of`, for the input `x` and the value `y` of an IR."""
    n = math.prod(kind_of(code, x)[1])
    sets = Sets(n, order == 2)
    known_values = KnownValues(code, leaves)
    columns = np.arange(1, n + 1, dtype=np.int32)
    found = Propagation(code, sets, curvature(), known_values.sides, known_values, {x: columns})
    found.run([y])
    if order == 2:
        return _matrix(*interactions(sets), (n, n))
    ids = np.ascontiguousarray(found.ids(y)).reshape(-1)
    return _matrix(*sets.rows(ids), (ids.size, n))


def _matrix(ends, indices, shape):
    from scipy.sparse import csr_array  # imported here, since SciPy loads slowly

    found = csr_array((np.ones(len(indices), dtype=bool), indices, ends), shape=shape)
    found.has_sorted_indices = found.has_canonical_format = True
    return found


# ---------------------------------------------------------------------------------------------- validation at first use


def check(
    matrix: Any,
    jvp: Callable,
    name: str = "f",
    f: Callable | None = None,
    rtol: float = 1e-6,
    nearby: Callable | None = None,
) -> None:
    """Compare a sparse Jacobian with a directional derivative, which needs no pattern.

    The direction has random signs and magnitudes between 1/2 and 1, divided by the largest entry of each column so that
    large columns do not hide small ones. If a Jacobian was recovered from sums of columns, an entry missing from the
    pattern appears in another column; with random signs alone, half of these errors would cancel.

    Where terms of a derivative cancel, both sides are rounding errors. These change along a slightly shorter direction
    at a point a few units in the last place away; the contribution of a missing entry does not.

    Parameters
    ----------
    matrix : sparse array, shape (m, n)
        The Jacobian or Hessian computed with a pattern.
    jvp : callable
        Maps a direction of shape (n,) to the directional derivative, with m elements.
    name : str
        Name of the function for the message.
    f : callable, optional
        The function, whose file and line the message names.
    rtol : float
        Tolerance relative to the sum of magnitudes in a row.
    nearby : callable, optional
        Maps a random generator to ``(matrix, jvp)`` at a point close by.

    Raises
    ------
    PatternError
        If they differ, since the pattern then lacks an entry in a row.

    References
    ----------
    Vignes (2004), Discrete stochastic arithmetic for validating results of numerical software.
    doi:10.1023/B:NUMA.0000049483.75679.ce
    """
    csr = matrix.tocsr()
    data = np.ascontiguousarray(csr.data, float)
    v = direction(csr.indices, data, csr.shape[1])
    exact = _product(jvp, v)
    wrong, row, _ = differing(csr.indptr, csr.indices, data, v, exact, rtol)
    if wrong:
        rows = _rows_lacking_entries(csr, jvp, v, exact, rtol, nearby)
        wrong, row = len(rows), int(rows[0]) if len(rows) else -1
    if wrong:
        raise PatternError(
            f"{name}{location_of(f)}: row {row} of the sparse derivative disagrees with the derivative along a random "
            f"direction, {(csr @ v)[row]:.6g} instead of {exact[row]:.6g} "
            f"({wrong} of {len(exact)} rows): {MISSING_ENTRIES_HINT}"
        )


def _product(jvp, v):
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(jvp(v), float).reshape(-1)


def _rows_lacking_entries(csr, jvp, v, exact, rtol, nearby):
    """Return rows in which a product differs from the exact one by more than rounding errors, which vary by point."""
    rng = np.random.default_rng(1964)
    with np.errstate(all="ignore"):
        missing = csr @ v - exact
        is_wrong = np.abs(missing) > rtol * np.maximum(abs(csr) @ np.abs(v), np.abs(exact))
        is_wrong &= np.isfinite(missing)
        for _ in range(NEARBY_POINTS):
            if not is_wrong.any():
                break
            length = rng.uniform(0.5, 1.0)
            try:
                matrix, product = (csr, jvp) if nearby is None else nearby(rng)
                found = matrix @ (length * v) - _product(product, length * v)
            except GuardError:  # the point lies across a branch
                found = csr @ (length * v) - _product(jvp, length * v)
            is_wrong &= ~(np.abs(found / length - missing) > MAX_RELATIVE_CHANGE * np.abs(missing))
    return np.flatnonzero(is_wrong)


#: explanation for a pattern that lacks entries
MISSING_ENTRIES_HINT = "the given pattern, or sparsity= of a primitive, lacks entries; see wengert.sparsity"


def location_of(f: Any) -> str:
    """File and line of a function, for a message."""
    inner = next((part for part in (getattr(f, word, None) for word in _WRAPPED) if callable(part)), f)
    if inner is not f:
        return location_of(inner)
    code = getattr(f, "__code__", None) or getattr(type(f).__call__, "__code__", None)
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"


#: attributes by which wrappers refer to the function inside
_WRAPPED = ("py_func", "f", "func", "__wrapped__")
