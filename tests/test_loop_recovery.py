"""Time loops in programs, recovered as loop instructions."""

import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wengert.program.ir.opcodes import Op

import wengert as wg
from helpers import loops_of
from wengert.errors import GuardError
from wengert.program.ir import verify
from wengert.program.passes import loop_recovery

X = np.random.default_rng(3).normal(size=(6, 7))
DRIVE = np.random.default_rng(4).normal(size=(60, 6, 7))
STEPS = 25


@pytest.fixture(autouse=True)
def loops_of_any_size(monkeypatch):
    """Recover small loops as well, so that tests run fast."""
    for name in ("_MIN_BYTES", "_MIN_BYTES_PER_STEP", "_MAX_FUSED_INSTRUCTIONS"):
        monkeypatch.setattr(loop_recovery, name, 0)


def stencil(u):
    for _ in range(STEPS):
        lap = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        new = u.copy()
        new[1:-1, 1:-1] += 0.1 * (lap + u[1:-1, 1:-1] - u[1:-1, 1:-1] ** 3)
        u = new
    return np.sum(u**2)


def in_place(u):
    u = u.copy()
    for _ in range(STEPS):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0] = np.sin(u[1])
    return np.sum(u**3)


def rolled(u):
    for _ in range(STEPS):
        u = u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 1) - 2 * u * np.cos(u))
    return np.sum(u * u)


def padded(u):
    for _ in range(STEPS):
        p = np.pad(u, 1, mode="wrap")
        q = np.pad(u, 1)
        u = u + 0.05 * (p[2:, 1:-1] + p[:-2, 1:-1] - 2 * u) + 0.01 * q[1:-1, 2:]
    return np.sum(u**2)


def two_species(u):
    v = 0.3 * np.cos(u)
    for _ in range(STEPS):
        reaction = u * v * v
        u, v = u + 0.1 * (np.roll(u, 1) - u - reaction), v + 0.1 * (np.roll(v, -1) - v + reaction)
    return np.sum(u) + np.sum(v**3)


def driven(u):
    total = 0.0
    for k in range(STEPS):
        u = u + 0.1 * (np.sin(u) * np.cos(0.3 * k) + DRIVE[k] - u)
        total = total + 0.1 * np.sum(u[1:] * u[:-1])
    return total


def leapfrog(u):
    old, u = u, 1.01 * u
    for _ in range(STEPS):
        old, u = u, 2 * u - old + 0.1 * (np.roll(u, 1) - u)
    return np.sum(u * old)


def trajectory(u):
    kept = np.zeros((STEPS + 1, *u.shape))
    kept[0] = u
    for k in range(STEPS):
        kept[k + 1] = kept[k] + 0.1 * (np.roll(kept[k], 1, 0) - 0.1 * kept[k] ** 3)
    return np.sum(kept[::3] ** 2 * np.arange(len(kept[::3]))[:, None, None])


def columns(u):
    kept = np.zeros((u.size, STEPS))
    for k in range(STEPS):
        u = u + 0.1 * np.cos(np.roll(u, 1))
        kept[:, k] = u.ravel()
    return np.sum(kept**2 @ np.arange(STEPS))


def stacked(u):
    kept = []
    for _ in range(STEPS):
        u = u + 0.1 * np.cos(np.roll(u, 2))
        kept.append(np.sum(u**2))
    return np.sum(np.array(kept) * np.arange(STEPS))


def solved(u):
    a = np.eye(6) * 3 + np.diag(np.ones(5), 1)
    for _ in range(STEPS):
        u = np.linalg.solve(a, u + 0.1 * np.tanh(u))
    return np.sum(u * X)


def scalars(u):
    x, y, z = u[0, 0], u[1, 1], u[2, 2]
    for _ in range(40):
        x, y, z = x + 0.01 * 10 * (y - x), y + 0.01 * (x * (28 - z) - y), z + 0.01 * (x * y - 8 / 3 * z)
    return x * y * z


def branched(u):
    for _ in range(STEPS):
        u = u - 0.05 * np.roll(u, 1) * u
        if np.sum(u) > 1e3:
            u = u / 2
    return np.sum(u**2)


def parameters(u):
    """The variables are constant over the loop, and each step reads them."""
    y = np.ones_like(u)
    for _ in range(STEPS):
        y = y + 0.1 * (np.roll(u, 1) - u * y + u[0, 0])
    return np.sum(y**2)


def driven_by_it(u):
    y = np.ones(u.shape[1])
    for k in range(STEPS):
        y = y + 0.1 * (u[k] * np.roll(y, 1) - y)
    return np.sum(y**2)


def strided(u):
    v = u[:, ::2]
    y = np.ones(v.shape)
    for _ in range(STEPS):
        y = y + 0.1 * (np.roll(y, 1) * v - y)
    return np.sum(y**2)


def driven_by_columns(u):
    y = np.ones(u.shape[1])
    for k in range(STEPS):
        y = y + 0.1 * (u.T[:, k] * np.roll(y, 1) - y)
    z = u.T.copy()
    for k in range(STEPS):
        y = y + 0.1 * (z[:, k] * np.roll(y, 1) - y)
    return np.sum(y**2)


#: with the maximum number of instructions in a step
FUNCTIONS = {
    stencil: 25,
    in_place: 20,
    rolled: 30,
    padded: 30,
    two_species: 31,
    driven: 20,
    leapfrog: 20,
    trajectory: 20,
    columns: 20,
    stacked: 20,
    solved: 6,
    scalars: 25,
    branched: 20,
    parameters: 20,
    driven_by_it: 20,
    strided: 20,
}


def point(f):
    return np.random.default_rng(5).normal(size=(STEPS, 7)) if f is driven_by_it else X


def checked_loop(program):
    """The list with loops of a program, which is well-formed."""
    code = program._vectorised_ir()
    verify.check(code)
    for loop in loops_of(code):
        verify.check(loop.body)
    return code


def scale(y):
    return max(1.0, np.max(np.abs(y)))


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_time_loop_is_recovered_with_its_derivatives(f):
    x = point(f)
    v = np.random.default_rng(6).normal(size=x.shape)
    program = wg.record(f, x)
    (loop,) = loops_of(checked_loop(program))
    assert loop.steps >= 20
    assert len(loop.body) <= FUNCTIONS[f]
    assert len(program._vectorised_ir()) < len(program) / 4
    for at in (x, 0.9 * x):
        gradient = wg.grad(f, at)
        np.testing.assert_allclose(program(at), f(at), rtol=1e-12)
        made = program.grad()
        np.testing.assert_allclose(made(at), gradient, rtol=1e-10, atol=1e-11 * scale(gradient))
        assert len(loops_of(checked_loop(made))) == 2
        assert program.jvp()(at, v)[1] == pytest.approx(np.sum(gradient * v), rel=1e-9)
        second = wg.hvp(f, at, v)
        np.testing.assert_allclose(program.hvp()(at, v), second, rtol=1e-8, atol=1e-9 * scale(second))


def test_columns_read_by_steps_receive_adjoints():
    x = np.random.default_rng(7).normal(size=(STEPS, 7))
    program = wg.record(driven_by_columns, x)
    assert len(loops_of(checked_loop(program))) == 2
    np.testing.assert_allclose(program.grad()(x), wg.grad(driven_by_columns, x), rtol=1e-12)


def test_last_state_has_a_jacobian():
    def last(u):
        for k in range(STEPS):
            u = u + 0.1 * np.roll(u, 1) * np.cos(0.1 * k)
        return u

    x = X[0]
    program = wg.record(last, x)
    assert loops_of(checked_loop(program))
    np.testing.assert_allclose(program.jacobian()(x), wg.jacobian(last, x), rtol=1e-11, atol=1e-13)


def test_failed_guard_in_a_step_ends_replay():
    def f(u):
        for _ in range(STEPS):
            u = u + 0.1 * np.roll(u, 1)
            if np.sum(u) > 50.0:
                u = u / 2
        return np.sum(u**2)

    low, high = np.full(5, 0.1), np.full(5, 3.0)
    program = wg.record(f, low)
    (loop,) = loops_of(checked_loop(program))
    assert (loop.body.op == Op.GUARD).any()
    with pytest.raises(GuardError, match=r"test_loop_recovery\.py:\d+"):
        program(high)
    assert program(low) == pytest.approx(f(low), rel=1e-13)
    compiled = wg.compile(wg.grad(f))
    for x in (low, high, low, high):
        np.testing.assert_allclose(compiled(x), wg.grad(f, x), rtol=1e-11)


def test_guard_in_a_step_is_checked_for_unused_values():
    """The gradient of a linear function does not read the values, but the branch depends on them."""

    def f(u):
        for _ in range(STEPS):
            u = u + 0.1 * np.roll(u, 1)
            if np.sum(u) > 50.0:
                u = u / 2
        return np.sum(u * np.arange(5.0))

    low, high = np.full(5, 0.1), np.full(5, 3.0)
    program = wg.record(f, low)
    for made in (program.grad(), program.grad().jvp(), program.jacobian()):
        arguments = (low,) * len(made._form.templates)
        made(*arguments)
        with pytest.raises(GuardError):
            made(high, *arguments[1:])
    np.testing.assert_allclose(program.grad()(low), wg.grad(f, low), rtol=1e-12)


def test_results_do_not_depend_on_threads():
    program = wg.record(stencil, X).grad()
    points = [X * (1 + 0.1 * k) for k in range(8)]
    expected = [program(x) for x in points]
    found = [None] * len(points)

    def run(k):
        for _ in range(5):
            found[k] = program(points[k])

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(points))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(expected, found):
        np.testing.assert_array_equal(one, other)


def test_programs_with_loops_are_pickled():
    program = wg.record(driven, X).grad()
    other = pickle.loads(pickle.dumps(program))
    np.testing.assert_array_equal(other(X), program(X))
    assert len(loops_of(other._vectorised_ir())) == 2


def test_short_code_and_elementwise_steps_stay_unrolled(monkeypatch):
    monkeypatch.undo()

    def elementwise(x):
        for _ in range(100):
            x = x - 0.01 * np.sin(x)
        return x

    def by_elements(x):
        x = x.copy()
        for _ in range(300):
            rate = [x[i - 1] * (x[(i + 1) % 40] - x[i - 2]) - x[i] for i in range(40)]
            for i in range(40):
                x[i] += 0.01 * rate[i]
        return np.sum(x**2)

    for f, x in ((stencil, X), (elementwise, np.ones(20_000)), (by_elements, np.ones(40))):
        assert not loops_of(wg.record(f, x)._vectorised_ir())

    def heavy(u):
        for _ in range(200):
            u = u + 0.1 * np.roll(u, 1, 0) * u
        return np.sum(u)

    assert loops_of(wg.record(heavy, np.full((64, 64), 1e-3))._vectorised_ir())


def test_different_steps_are_not_a_loop():
    def f(u):
        for k in range(STEPS):
            u = [np.sin, np.cos, np.tanh, np.arctan, np.exp][k * k * 7 % 5](u) + np.roll(u, k % 7 + 1)
        return np.sum(u)

    program = wg.record(f, X)
    assert not loops_of(program._vectorised_ir())
    assert program(X) == pytest.approx(f(X), rel=1e-13)


UNARY = [
    np.sin,
    np.cos,
    np.tanh,
    lambda a: 0.5 * a,
    lambda a: a * a * 0.1,
    lambda a: a[::-1, :],
    lambda a: np.roll(a, 1, 1),
]
BINARY = [np.add, np.subtract, lambda a, b: a * b * 0.3, lambda a, b: np.where(a > 0.371, a, 0.5 * b)]


@st.composite
def steps(draw):
    """Draw a step on several arrays: its operations, and which results are carried to the next step."""
    count = draw(st.integers(1, 3))
    operations = []
    for k in range(draw(st.integers(1, 7))):
        known = count + k
        operands = tuple(draw(st.integers(0, known - 1)) for _ in range(draw(st.integers(1, 2))))
        operations.append((draw(st.sampled_from(UNARY if len(operands) == 1 else BINARY)), operands))
    known = count + len(operations)
    carried = [draw(st.integers(0, known - 1)) for _ in range(count)]
    driven = draw(st.sampled_from(["nothing", "constants", "arrays", "parts"]))
    kept = draw(st.sampled_from(["last", "sums", "trajectory"]))
    return count, operations, carried, driven, kept


@settings(max_examples=60, deadline=None)
@given(steps(), st.integers(8, 14))
def test_loop_equals_its_unrolled_steps(step, n):
    count, operations, carried, driven, kept = step

    def f(x):
        state = [x * (k + 1) for k in range(count)]
        total, line = 0.0, np.zeros((n, *x.shape))
        for k in range(n):
            values = list(state)
            for operation, operands in operations:
                values.append(operation(*[values[j] for j in operands]))
            state = [np.tanh(values[j]) for j in carried]
            if driven == "constants":
                state[0] = state[0] + 0.1 * k
            elif driven == "arrays":
                state[0] = state[0] * 0.9 + 0.1 * DRIVE[k, :3, :4]
            elif driven == "parts":
                state[0] = state[0] + 0.1 * x[k % 3]
            if kept == "sums":
                total = total + np.sum(state[-1]) * 0.1
            line[k] = state[0]
        return np.sum(state[0] ** 2) + total + (np.sum(line * 0.1) if kept == "trajectory" else 0.0)

    x = X[:3, :4]
    program = wg.record(f, x)
    flat = program._listing
    code = loop_recovery.recover_loops(flat)
    verify.check(code)
    np.testing.assert_allclose(program(x), f(x), rtol=1e-11, atol=1e-12)
    gradient = wg.grad(f, x)
    np.testing.assert_allclose(program.grad()(x), gradient, rtol=1e-9, atol=1e-10 * scale(gradient))
    v = np.ones_like(x)
    second = wg.hvp(f, x, v)
    np.testing.assert_allclose(program.hvp()(x, v), second, rtol=1e-8, atol=1e-9 * scale(second))


def test_data_movement_becomes_slice_stores():
    """Data movement becomes no calls, in programs and in derivatives."""

    def f(x):
        y = np.concatenate([np.roll(x, 2, 1), np.flip(x, 0), np.tile(x, (1, 1))])
        return np.sum(np.pad(y, ((1, 2), (0, 1))) ** 2) + np.sum(x[[0, 2, 2]] ** 3) + np.sum(np.repeat(x, 2, 0) * 2.0)

    program = wg.record(f, X)
    made = program.grad()
    for code in (program._listing, made._listing):
        assert not (code.op == Op.CALL).any()
    np.testing.assert_allclose(program(X), f(X), rtol=1e-13)
    np.testing.assert_allclose(made(X), wg.grad(f, X), rtol=1e-12)


def test_zero_dimensional_array_has_no_offsets():
    def f(x):
        return np.sum(np.resize(x[0:1, 0].reshape(()), (2, 3)) ** 2) + np.sum(x)

    program = wg.record(f, X)
    assert program(X) == pytest.approx(f(X), rel=1e-14)
    np.testing.assert_allclose(program.grad()(X), wg.grad(f, X), rtol=1e-13)


def test_operand_overwritten_in_place_is_read_first():
    """Adjoints are accumulated in place; other readers of the same elements see the old values."""

    def f(x):
        y = x.copy()
        y[1:-1] = y[1:-1] * 2.0 + x[2:]
        z = y.copy()
        z[1:-1] += y[1:-1] * y[:-2]
        y[1:-1] -= z[1:-1] * y[1:-1]
        return np.sum(z[1:-1] * y[1:-1]) + np.sum(y**2)

    x = np.random.default_rng(8).normal(size=(20, 3))
    program = wg.record(f, x)
    v = np.random.default_rng(9).normal(size=x.shape)
    np.testing.assert_allclose(program(x), f(x), rtol=1e-13)
    np.testing.assert_allclose(program.grad()(x), wg.grad(f, x), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(program.hvp()(x, v), wg.hvp(f, x, v), rtol=1e-10, atol=1e-11)


def test_scatter_may_write_into_another_memory_order():
    def f(x):
        y = np.transpose(np.sin(np.resize(x, (2, 3, 4))), (1, 2, 0))
        np.subtract.at(y, [2, 1, 1], x[0])
        return np.ravel(y)

    x, v = np.random.default_rng(10).normal(size=12), np.random.default_rng(11).normal(size=24)
    np.testing.assert_allclose(wg.record(f, x).vjp()(x, v)[1], wg.vjp(f, x)[1](v), rtol=1e-12)


@pytest.mark.parametrize("count", range(8))
def test_few_computations_on_arrays_are_no_loop(count):
    def f(x):
        y, z = x, x[0]
        for function in (np.sin, np.exp, np.tanh, np.cos, np.arctan, np.sinh, np.cosh)[:count]:
            y = function(y)
        for k in range(80):
            z = np.sin(z) * (k % 7) + x[k % 3]
        return np.sum(y) + z

    code = wg.record(f, np.ones(9))._listing
    assert loop_recovery.recover_small_loops(code, None) is code
