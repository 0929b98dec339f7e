"""Checks of a call of SciPy under its own name: values, derivatives of every mode and order, programs, and batches."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import wengert as wg
from helpers import assert_rounding, assert_same_bits
from wengert.errors import CompileWarning
from wengert.testing import check_derivatives

pytest.importorskip("scipy", minversion="1.17")  # the mirrors need it

FLOATS = "fc"


def moving_of(operands):
    return tuple(i for i, x in enumerate(operands) if np.asarray(x).dtype.kind in FLOATS)


def check(f, *operands, order=2, argnums=None, compiled=True, batches=True, sparse=True, atol=1e-10, **options):
    """Raise unless f is differentiated as its plain values say, with respect to all operands of floats.

    `f` returns one array or scalar of floats.  The switches leave out what a call cannot do, with a reason where it is
    used; a program that falls back to the eager derivative counts as right.
    """
    argnums = moving_of(operands) if argnums is None else argnums
    operands = [np.asarray(x, dtype=float) if i in argnums else x for i, x in enumerate(operands)]
    y = f(*operands)
    check_values(f, operands, argnums, y)
    check_derivatives(f, operands[0], order, args=tuple(operands[1:]), argnums=argnums, atol=atol, **options)
    weights = np.cos(1.0 + np.arange(np.size(y)).reshape(np.shape(y)))

    def total(*args):
        return np.sum(weights * f(*args))

    if compiled:
        check_program(wg.grad(total, argnums=argnums), operands, argnums, 1e-8)
        check_program(f, operands, argnums, 1e-9)  # programs compute formulas, which agree with SciPy within rounding
    if batches:
        check_batch(f, operands, argnums)
    if sparse and len(argnums) == 1 and np.ndim(operands[argnums[0]]) == 1 and np.ndim(y) == 1:
        dense = wg.jacobian(f, argnums=argnums[0])(*operands)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            found = wg.jacobian(f, argnums=argnums[0], sparse=True)(*operands).toarray()
        assert_rounding(found, dense, what="sparse Jacobian")


def check_values(f, operands, argnums, y):
    """Values within derivatives have the bits of plain ones."""

    def of(*moving):
        given = dict(zip(argnums, moving, strict=True))
        return f(*[given.get(i, x) for i, x in enumerate(operands)])

    moving = [operands[i] for i in argnums]
    tangents = [np.ones(np.shape(x)) for x in moving]
    forward, _ = wg.jvp(lambda parts: of(*parts), moving, tangents)
    reverse, _ = wg.vjp(lambda parts: of(*parts), moving)
    nested, _ = wg.jvp(lambda parts: wg.vjp(lambda p: of(*p), parts)[0], moving, tangents)
    for what, value in (("forward", forward), ("reverse", reverse), ("nested", nested)):
        assert_same_bits(value, y, f"value in {what} mode")


def check_program(f, operands, argnums, rtol):
    """A compiled function has the values of the eager one, at the point of the recording and at another."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        program = wg.compile(f)
        for scale in (1.0, 1.0, 1 - 1e-3):
            at = [x * scale if i in argnums else x for i, x in enumerate(operands)]
            found, expected = program(*at), f(*at)
            pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
            for got, want in pairs:
                np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(1.0, np.max(np.abs(want), initial=0)))


def check_batch(f, operands, argnums):
    """A batch holds the results of its elements, and its Jacobian theirs."""
    in_axes = tuple(0 if i in argnums else None for i in range(len(operands)))
    points = [[x * s if i in argnums else x for i, x in enumerate(operands)] for s in (1.0, 1 - 1e-3)]
    stacked = [np.stack([p[i] for p in points]) if i in argnums else x for i, x in enumerate(operands)]
    found = wg.vmap(f, in_axes)(*stacked)
    expected = np.stack([f(*p) for p in points])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * max(1.0, np.max(np.abs(expected), initial=0)))
