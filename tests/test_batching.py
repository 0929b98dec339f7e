"""Batched code computes many points at once, with the same values as at each point."""

import functools

import numpy as np
import pytest
from wengert.program.vm.machine import Machine

import wengert as wg
from array_programs import PROGRAMS, X
from helpers import loops_of
from wengert.errors import GuardError
from wengert.program.ir import reference, verify
from wengert.program.passes import simplify
from wengert.program.passes.batching import batch_program

RNG = np.random.default_rng(3)
COUNT = 5
MATRIX = RNG.normal(size=(4, 3))


def spread(x, count=COUNT):
    """Return points near one point."""
    return x + 0.01 * np.random.default_rng(4).normal(size=(count, *np.shape(x)))


def check(program, numbers, leaves, code=None, count=COUNT):
    """The wide list, by the machine and by the plain interpreter, against the list at each point."""
    code = program._vectorised_ir() if code is None else code
    wide = simplify.simplified(batch_program(code, numbers, count, program._example))
    verify.check(wide)
    expected = [program._with_ir(code)._execute([x[i] if k in numbers else x for k, x in enumerate(leaves)])
                for i in range(count)]  # fmt: skip
    for found in (Machine(simplify.lowered(wide)).run(leaves), reference.outputs(wide, leaves)):
        assert len(found) == len(expected[0])
        for k, y in enumerate(found):
            stacked = np.stack([each[k] for each in expected])
            assert y.shape == stacked.shape
            assert y.dtype == stacked.dtype
            np.testing.assert_allclose(y, stacked, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", PROGRAMS)
def test_batched_program_equals_program_of_each_element(name):
    f = PROGRAMS[name]
    program = wg.record(f, X)
    try:
        check(program, {0}, [spread(X)])
    except GuardError:
        pytest.fail(f"{name} takes other branches nearby: choose other points")


@pytest.mark.parametrize("name", [name for name in PROGRAMS if np.size(PROGRAMS[name](X.copy()))])
def test_batched_derivative_equals_derivative_of_each_row(name):
    f = PROGRAMS[name]
    program = wg.record(lambda x: np.sum(np.ravel(f(x)) * np.cos(np.arange(np.size(f(X.copy()))))), X)
    for made in (program.vjp(), program.jvp()):
        number = made._form.inputs_of(1)[0] if made._form.inputs_of(1) else 1
        leaves = [X, np.ones(())] if made is program.vjp() else [X, X]
        leaves[number] = RNG.normal(size=(COUNT, *np.shape(leaves[number])))
        check(made, {number}, leaves)


CASES = {
    "a sum": lambda x: np.sum(x),
    "numbers": lambda x: x[0] * x[1] ** x[2] + 2.0,
    "a number times an array": lambda x: x[0] * x + np.sin(x) * 3.0,
    "a constant matrix": lambda x: MATRIX @ x,
    "a row times a matrix": lambda x: x @ MATRIX.T,
    "inner products": lambda x: np.dot(x, x) * np.vdot(x, x[::-1]),
    "matrices": lambda x: np.outer(x, x) @ np.outer(x, np.sin(x)),
    "a linear solve": lambda x: np.linalg.solve(np.diag(x) + 3.0 * np.eye(3), x),
    "a determinant": lambda x: np.linalg.det(np.diag(x) + np.outer(x, x)),
    "a function NumPy has for one": lambda x: np.trace(np.outer(x, x)) + np.interp(x, [0.0, 2.0], [0.0, 3.0]),
    "sums along axes": lambda x: np.outer(x, x * x).sum(axis=0) * np.outer(x, x).mean(axis=1, keepdims=True),
    "maximum and minimum": lambda x: np.max(np.outer(x, x), axis=0) - np.min(x),
    "sorted": lambda x: np.sort(x)[::-1],
    "gathered and scattered": lambda x: np.bincount([0, 2, 0], x, 4)[[3, 0, 0, 2]] * 2.0,
    "choices": lambda x: np.where(x > 0.4, np.sqrt(x), x**2),
    "branch on the shape": lambda x: x * 2.0 if np.size(x) == 3 else x,
    "a branch": lambda x: x * 2.0 if x[0] < 1.0 else x,
    "a stack": lambda x: np.stack([x, x * 2.0, np.ones(3)]),
    "a reversed one": lambda x: np.roll(x, 1)[::-1] * x[0],
    "complex numbers": lambda x: np.abs(np.fft.fft(x * (1.0 + 2.0j))) + (x * 1j).imag,
    "single precision": lambda x: x.astype(np.float32) * np.float32(2.0),
    "no dependence": lambda x: np.arange(3.0) + 0.0 * np.floor(x),
    "of no elements": lambda x: np.concatenate([x[:0] * 2.0, x]),
    "cumulated": lambda x: np.cumsum(np.sin(x)) + np.cumprod(x),
    "transposed": lambda x: (np.outer(x, x).T * x)[1:, ::-1],
    "a loop over elements": lambda x: np.array([x[i] * x[i - 1] for i in range(3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_batched_function_equals_function_of_each_element(name):
    program = wg.record(CASES[name], X)
    check(program, {0}, [spread(X)])


SQUARE = RNG.normal(size=(7, 12))
PRODUCTS = {
    "a matrix and a vector": lambda x, a: np.sin(SQUARE @ x) * (a @ x),
    "a vector and a matrix": lambda x, a: np.exp(x @ SQUARE.T) + x @ a.T,
    "rows": lambda x, a: np.tanh(x.reshape(1, -1) @ SQUARE.T) @ np.ones(7) + np.sum(a @ x[:, None]),
    "columns": lambda x, a: np.dot(a, x[:, None]) * np.dot(SQUARE, x.reshape(-1, 1)),
    "slices": lambda x, a: a.T @ (SQUARE @ x) + a[::-1].T @ (SQUARE[:, ::-1] @ x[::-1]),
    "grids": lambda x, a: (a @ x.reshape(12)).reshape(1, 7) @ SQUARE @ x.reshape(3, 4).ravel(),
    "not a unit vector": lambda x, a: a @ (2.0 * x) + SQUARE @ np.concatenate([x[6:], x[:6]]),
    "twice": lambda x, a: np.outer(x, x) @ a[0] * np.dot(x, x),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("columns", [False, True], ids=["by rows", "by columns"])
def test_products_with_unit_vectors_are_rows_and_columns(name, columns):
    f = PRODUCTS[name]
    x, a = np.linspace(0.2, 1.2, 12), np.random.default_rng(7).normal(size=(7, 12))
    a = np.asfortranarray(a) if columns else a
    program = wg.record(f, x, args=(a,))
    dense = wg.jacobian(f)(x, a)
    rows = dense.reshape(-1, 12)
    for made, expected in ((program.jvp(), rows.T), (program.vjp(), rows)):
        code, number, count = made._derivative_only(), 1, len(expected)
        lists = [batch_program(code, [number], count, made._example, are_units) for are_units in (False, True)]
        plain, wide = map(simplify.simplified, lists)
        verify.check(wide)
        directions = np.full((count, *np.shape(made._example[number])), np.nan)  # the values are not read
        found = Machine(simplify.lowered(wide)).run([x, directions, a])[0]
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-12, atol=1e-13)
        if made is program.jvp() and name not in ("not a unit vector", "twice"):
            assert len(wide.calls) < len(plain.calls)


def test_only_some_inputs_are_batched():
    program = wg.record(lambda x, a, b: np.outer(x, a) @ (b * a) + np.sum(np.sin(a) * 2.0), X, args=(X + 1.0, 2.0))
    points = (spread(X), spread(X + 1.0), 2.0 + 0.1 * np.arange(COUNT))
    for numbers in ({0}, {1}, {2}, {0, 2}, {0, 1, 2}):
        leaves = [points[k] if k in numbers else (X, X + 1.0, 2.0)[k] for k in range(3)]
        check(program, numbers, leaves)


def test_guard_holds_at_all_points_or_fails():
    program = wg.record(lambda x: x * 2.0 if np.sum(x) > 1.0 else x, X)
    machine = Machine(simplify.lowered(batch_program(program._listing, {0}, 3, program._example)))
    good = np.stack([X, X * 2.0, X * 3.0])
    np.testing.assert_array_equal(machine.run([good])[0], good * 2.0)
    good[1] = 0.1
    with pytest.raises(GuardError):
        machine.run([good])


def test_recovered_loops_run_once_per_point(monkeypatch):
    from wengert.program.passes import loop_recovery

    monkeypatch.setattr(loop_recovery, "_MIN_BYTES", 0)
    monkeypatch.setattr(loop_recovery, "_MIN_BYTES_PER_STEP", 0)

    def f(u):
        for _ in range(12):
            u = u + 0.1 * np.roll(u, 1) * u - 0.2 * np.sum(u)
        return u

    program = wg.record(f, X)
    code = loop_recovery.recover_loops(program._listing)
    assert loops_of(code)
    check(program, {0}, [spread(X)], code)


def logistic(w):
    z = DATA @ w
    return np.sum(np.logaddexp(0.0, z) - LABELS * z) + 0.5 * np.sum(w * w)


DATA = RNG.normal(size=(30, 9))
LABELS = (RNG.random(30) < 0.5) * 1.0


@pytest.mark.parametrize("most", [1, 40, 400, 1 << 20])
def test_batching_rows_does_not_change_the_jacobian(most, monkeypatch):
    """Chunks that do not divide the rows, and a single chunk."""
    from wengert.program import derivatives, swept

    monkeypatch.setattr(swept, "MAX_BATCH_ELEMENTS", most)
    monkeypatch.setattr(swept, "MIN_BATCH_WIDTH", 1)
    monkeypatch.setattr(derivatives, "_accumulated", lambda *_: None)  # accumulation would be chosen here
    w = 0.1 * RNG.normal(size=9)
    hessian = wg.record(logistic, w).hessian()
    rows = functools.partial(np.tensordot, MATRIX[:, :2], axes=0)
    f = wg.record(lambda x: rows(np.sin(x[:2]) @ np.outer(x[:2], x)), w)
    assert hessian._runs_per_call == {1: 9, 40: 9, 400: 1, 1 << 20: 1}[most] or most == 400
    found = hessian(w)
    np.testing.assert_allclose(found, wg.hessian(logistic, w), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(found, found.T)
    jacobian = f.jacobian()
    np.testing.assert_allclose(jacobian(w), wg.jacobian(lambda x: rows(np.sin(x[:2]) @ np.outer(x[:2], x)), w),
                               rtol=1e-12, atol=1e-14)  # fmt: skip
    out = np.empty((9, 9))
    assert hessian(w, out=out) is out
    np.testing.assert_array_equal(out, found)


def test_jacobians_may_have_no_rows_or_columns():
    for f, x in ((lambda x: np.linalg.inv(np.diag(x))[:0], X), (lambda x: np.cumsum(np.outer(x, x)), X[:0])):
        assert wg.record(f, x).jacobian()(x).shape == (*f(x).shape, *x.shape)


@pytest.mark.parametrize("axis", [0, -1])
def test_batched_fft_is_one_call(axis):
    def f(x):
        z = np.fft.rfft(x, axis=axis)
        return np.fft.irfft(z * np.fft.fft(np.sin(x), axis=axis)[:1, :1], n=5, axis=axis, norm="ortho")

    program = wg.record(f, MATRIX)
    code = program._vectorised_ir()
    wide = simplify.simplified(batch_program(code, {0}, COUNT, program._example))
    assert [call.name for call in wide.calls if "fft" in call.name] == ["rfft", "fft", "irfft"]
    check(program, {0}, [spread(MATRIX)], code)
