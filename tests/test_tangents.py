"""Tangent rules: transposes of the pullbacks, for any number of directions."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import wengert.rules  # noqa: F401
from helpers import rows_of_numpy
from primitive_cases import CALLS, SYMMETRIC, call
from wengert.registry import lookup

inf, nan = np.inf, np.nan

PUSHED = [case for case in [*CALLS, *SYMMETRIC] if lookup(case.fun).jvps]


@pytest.fixture(autouse=True)
def quiet():
    """Rules are evaluated without floating-point warnings, as in the engine."""
    with np.errstate(all="ignore"):
        yield


def push(case, args, i, t, y):
    """Return the tangent of the result for tangent `t` of argument i (a list for a sequence), by the rule."""
    row = lookup(case.fun)
    if row.variadic:
        return row.jvps[None](i, t, y, *args, **case.kwargs)
    return row.jvps[i](t, y, *args, **case.kwargs)


def pullback(case, args, i, ybar, y):
    row = lookup(case.fun)
    if row.variadic:
        return row.variadic(i, ybar, y, *args, **case.kwargs)
    return row.vjps[i](ybar, y, *args, **case.kwargs)


def tangents(a, lead, draw):
    """Draw tangents of an operand or of a list of operands, 0 for non-numeric ones."""
    if isinstance(a, list):
        return [tangents(b, lead, draw) for b in a]
    return np.where(np.isfinite(a), draw((*lead, *np.shape(a))), 0.0)


def paired(xbar, t, lead):
    """Return inner products of a cotangent with tangents that have leading axes."""
    if isinstance(t, list):
        return sum(paired(b, v, lead) for b, v in zip(xbar, t, strict=True))
    return np.sum(np.where(t == 0, 0, xbar) * t, axis=tuple(range(len(lead), np.ndim(t))))


@pytest.mark.parametrize("lead", [(1,), (3,), (2, 2), ()])
@pytest.mark.parametrize("case", PUSHED, ids=lambda case: case.name)
def test_tangent_is_transpose_of_pullback(case, lead):
    rng = np.random.default_rng(7)
    args = case.draw()
    y = case(*args)
    ybar = np.asarray(np.where(np.isfinite(y), rng.uniform(-1, 1, np.shape(y)), 0.0))[()]
    for i in case.wrt:
        t = tangents(args[i], lead, lambda shape: rng.uniform(-1, 1, shape))
        ydot = np.broadcast_to(push(case, args, i, t, y), (*lead, *np.shape(y)))
        found = np.sum(np.where(ybar == 0, 0, ydot) * ybar, axis=tuple(range(len(lead), np.ndim(ydot))))
        np.testing.assert_allclose(found, paired(pullback(case, args, i, ybar, y), t, lead), 1e-12, 1e-13)


def at_odd_operands(case, args, odd):
    """Return the result with two elements of every operand replaced; None if NumPy raises."""
    for a in [args[i] for i in case.wrt]:
        for b in a if isinstance(a, list) else [a]:
            b.flat[:1], b.flat[2:3] = odd
    try:
        return case(*args)
    except ValueError:
        return None


@pytest.mark.parametrize("case", PUSHED, ids=lambda case: case.name)
def test_zero_tangent_gives_zeros_for_any_operands(case):
    """The second of three directions is 0, then all are; operands contain an infinity and NaN."""
    args = case.draw()
    y = at_odd_operands(case, args, [inf, nan])
    if y is None:  # NumPy raises for these operands
        y = at_odd_operands(case, args, [0.0, 0.0])
    for i in case.wrt:
        for middle in (slice(1, 2), slice(None)):
            t = tangents(args[i], (3,), np.ones)
            for v in t if isinstance(t, list) else [t]:
                v[middle] = 0
            ydot = push(case, args, i, t, y)
            np.testing.assert_array_equal(ydot[middle], np.zeros_like(ydot[middle]))


@pytest.mark.parametrize("case", PUSHED, ids=lambda case: case.name)
def test_tangent_of_float32_is_float32(case):
    def single(a):
        return [single(b) for b in a] if isinstance(a, list) else np.asarray(a, dtype=np.float32)

    args = tuple(single(a) if i in case.wrt else a for i, a in enumerate(case.draw()))
    y = case(*args)
    if y.dtype != np.float32:
        return  # float64 by definition, or combined with a plain scalar
    for i in case.wrt:
        t = [v.astype(np.float32) for v in tangents(args[i], (2,), np.ones)] if isinstance(args[i], list) else None
        t = tangents(args[i], (2,), np.ones).astype(np.float32) if t is None else t
        assert push(case, args, i, t, y).dtype == np.float32


def test_median_of_empty_array_does_not_raise():
    """NumPy warns about it, so it is not in the case table."""
    case, a, y = call(np.median, axis=0), np.ones((0, 3)), np.full(3, nan)
    assert np.shape(pullback(case, (a,), 0, np.ones((2, 3)), y)) == (2, 0, 3)
    np.testing.assert_array_equal(push(case, (a,), 0, np.ones((2, 0, 3)), y), np.zeros((2, 3)))


def test_rule_has_tangents_for_all_operands_or_none():
    for row in rows_of_numpy().values():
        if row.jvps:
            assert set(row.jvps) == ({None} if row.kind != "linear" and row.variadic else set(row.vjps)), row


def test_every_tangent_rule_has_a_case():
    called = {(case.fun, None if lookup(case.fun).variadic else i) for case in PUSHED for i in case.wrt}
    of_real = [row for row in rows_of_numpy().values() if not row.name.startswith("numpy.fft.")]
    given = {(row.fun, i) for row in of_real for i in row.jvps}
    assert given == called


def test_tangent_rules_accept_the_options_of_pullbacks():
    for row in rows_of_numpy().values():
        for i, fun in row.jvps.items():
            transpose = row.variadic or row.vjps[i]
            if row.kind == "linear":
                transpose = inspect.getclosurevars(transpose).nonlocals["transpose"]
            given, known = (list(inspect.signature(f).parameters.values()) for f in (fun, transpose))
            skip = 1 if row.kind == "linear" else 2
            assert given[2:] == known[skip:], row


@pytest.mark.parametrize(
    ("fun", "args", "i", "shape"),
    [
        (np.matmul, ((30, 40), (40, 20)), 0, (30, 40)),
        (np.matmul, ((30, 40), (40,)), 1, (40,)),
        (np.dot, ((30, 40), (40,)), 1, (40,)),
        (np.vdot, ((30, 40), (30, 40)), 1, (30, 40)),
    ],
)
def test_directions_of_one_matrix_use_one_product(fun, args, i, shape, monkeypatch):
    from wengert.rules import products

    sizes = []

    def counting(a, b, *, of=products.strong_matmul):
        sizes.append((np.ndim(a), np.ndim(b)))
        return of(a, b)

    monkeypatch.setattr(products, "strong_matmul", counting)
    rng = np.random.default_rng(0)
    args = tuple(rng.uniform(-1, 1, s) for s in args)
    push(call(fun), args, i, rng.uniform(-1, 1, (5, *shape)), fun(*args))
    assert sizes in ([(2, 2)], [(2, 1)])
