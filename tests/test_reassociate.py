"""Matrix products in derivatives are reassociated: fewer multiplications, same derivatives to rounding."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
from wengert.program.ir.ir import kind_of
from wengert.program.ir.opcodes import Op

import wengert as wg
from wengert.program.ir.call import Operand
from wengert.program.passes import simplify
from wengert.program.passes.reassociate import reassociate_products

RNG = np.random.default_rng(5)
TIERS = ["vm", "llvm"] if importlib.util.find_spec("llvmlite") else ["vm"]
X, W, V = RNG.normal(size=(30, 4)), RNG.normal(size=(4, 5)), RNG.normal(size=(3, 5, 4))
TALL, LINE, SQUARE = RNG.normal(size=(7, 30)), RNG.normal(size=40) / 40, RNG.normal(size=(40, 40)) / 40


def centred(m):
    """Subtract the means of three clusters, then multiply each by a factor."""
    return np.sum(((X - m.reshape(3, 1, 4)) @ np.swapaxes(V, 1, 2)) ** 2)


def biased(b):
    return np.sum(np.tanh((X + b) @ W))


def before(b):
    """Scale each row by a scalar before a product from the left."""
    return np.sum(np.sin(TALL @ (X * 0.5 + b[:, None])))


def of_all(b):
    """Scale each cluster by a scalar."""
    return np.sum(((X - b[:, None, None]) @ np.swapaxes(V, 1, 2)) ** 2)


def scaled(A):
    x = LINE + 1.2 * LINE[::-1] @ A
    return np.sum(1.5 * A @ x * LINE)


def scaled_result(A):
    return np.sum(np.sin(LINE[:30] @ SQUARE[:30] @ (3.0 * np.sin(A)).T)[:20] * LINE[:20])


#: function, point, and the remaining share of the gradient's multiplications
CASES = [
    (centred, RNG.normal(size=12), 0.7),
    (biased, RNG.normal(size=4), 0.7),
    (before, RNG.normal(size=30), 0.7),
    (of_all, RNG.normal(size=3), 0.7),
    (scaled, RNG.normal(size=(40, 40)), 0.9),
    (scaled_result, RNG.normal(size=(40, 40)), 1.0),
]


def multiplications(code):
    """Count multiplications in matrix products and in products of arrays with scalars."""
    found = 0
    for i, op in enumerate(code.op):
        if op == Op.CALL and code.calls[code.a[i]].row.fun is np.matmul:
            call = code.calls[code.a[i]]
            right = call.args[1]
            right = kind_of(code, call.operands[right.position])[1] if type(right) is Operand else right.shape
            found += math.prod(kind_of(code, i)[1]) * right[-2 if len(right) > 1 else 0]
        elif op < Op.INPUT:
            found += math.prod(kind_of(code, i)[1])
    return found


@pytest.mark.parametrize(("f", "x", "share"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_reassociation_saves_multiplications(f, x, share):
    program = wg.record(f, x).grad()
    plain = simplify.lowered(program._vectorised_ir())
    found = reassociate_products(plain)
    assert multiplications(found) <= share * multiplications(plain)
    y = RNG.normal(size=x.shape)
    expected = wg.grad(f)(y)
    for tier in TIERS:
        np.testing.assert_allclose(program.tiered(tier)(y), expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())
    v = RNG.normal(size=x.shape)
    hvp = wg.hvp(f)(y, v)
    np.testing.assert_allclose(wg.record(f, x).hvp()(y, v), hvp, rtol=1e-11, atol=1e-12 * np.abs(hvp).max())


def test_products_of_the_function_are_unchanged():
    def f(b):
        return np.sum((X + b) @ W, axis=0) + X[0] @ (2.0 * W)

    code = simplify.lowered(wg.record(f, np.zeros(4))._vectorised_ir())
    assert reassociate_products(code) is code
    b = RNG.normal(size=4)
    np.testing.assert_allclose(wg.record(f, np.zeros(4))(b), f(b), rtol=1e-14)


def test_product_with_other_uses_is_unchanged():
    def f(m):
        z = X - m
        return np.sum((z @ W) ** 2) + np.sum(z[0])

    def both(A):
        return np.sum(((A + np.sum(A, axis=0)) @ W) ** 2)

    for g, x in ((f, RNG.normal(size=4)), (both, RNG.normal(size=(6, 4)))):
        np.testing.assert_allclose(wg.record(g, x).grad()(x), wg.grad(g)(x), rtol=1e-12)


def test_nonfinite_factor_times_zero_is_unchanged():
    def f(m, U):
        return np.sum(np.maximum(X - m, 0.0)[:, :2] @ U[:2] @ np.zeros((5, 1)))

    compiled = wg.grad(wg.compile(f))
    U = W.copy()
    m = RNG.normal(size=4)
    np.testing.assert_array_equal(compiled(m, U), wg.grad(f)(m, U))
    U[0, 0] = np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compiled(m, U), wg.grad(f)(m, U))


def test_elements_at_offsets_beyond_the_length_of_the_program():
    """Columns of a load hold an offset, not a value."""

    def f(x):
        return centred(x[:12]) * x[50_000]

    x = RNG.normal(size=50_001)
    gradient = wg.record(f, x).grad()
    np.testing.assert_allclose(gradient(x), wg.grad(f, x), rtol=1e-10, atol=1e-12)
