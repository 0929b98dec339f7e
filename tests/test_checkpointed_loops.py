"""Checkpointed loops and calls, whose steps are recomputed: derivatives of plain loops in bounded memory."""

import dataclasses
import gc
import os
import random
import subprocess
import sys
import threading
import warnings
import weakref

import numpy as np
import pytest

import wengert as wg
from wengert.checkpointing import binomial, plan, simulate, two_level, uniform

# ---- programs: a step, a function that creates the state from x, and one that reads a scalar off the last state


@dataclasses.dataclass
class Body:
    place: np.ndarray
    speed: np.ndarray


def in_place(u, x):
    u[1:] += 0.1 * u[:-1] * x[0]
    u *= 0.9
    return u


def leapfrog(body, x):
    speed = body.speed - 0.1 * np.sin(body.place) * x[1]
    return Body(body.place + 0.1 * speed, speed)


def two_fields(state, x):
    u, v = state["u"], state["v"]
    return {"u": u + 0.1 * (v - u**3), "v": v - 0.1 * u * x[0], "count": state["count"] + 1}


def with_params(state, x):
    u, p = state
    return u + 0.05 * p["rate"] * np.tanh(u), p


def by_elements(u, x):
    new = np.zeros(3)
    for i in range(3):
        new[i] = u[i] + 0.1 * u[i - 1] * x[1]
    return new


def branching(u, x):
    return u * 1.1 if u[0] < 1.0 else u - 0.2 * u**2 * x[2]


def of_scalars(state, x):
    t, y, k = state
    return t + 0.1, y + 0.1 * np.cos(t * y) * x[0], k + 1


def through_views(u, x):
    return u.reshape(3, 1).T[0][::-1] * 0.99 + 0.01 * x


def unchanged(state, x):
    return state[1] * 0.9 + 0.1 * state[2], state[0], state[2]


def matrices(u, x):
    return np.tanh(np.outer(x, x) @ u)


def of_named(state, x):
    return type(state)(state.a * np.exp(-0.1 * state.b), state.b + 0.01 * x[0])


Pair = dataclasses.make_dataclass("Pair", ["a", "b"])

PROGRAMS = {
    "in place": (in_place, lambda x: x * 1.0, np.sum),
    "dataclass": (leapfrog, lambda x: Body(x, np.zeros(3)), lambda b: np.sum(b.place * b.speed)),
    "dict, and an integer": (two_fields, lambda x: {"u": x, "v": np.ones(3), "count": 0}, lambda s: np.sum(s["u"])),
    "parameters in the state": (
        with_params,
        lambda x: (np.ones(3), {"rate": x}),
        lambda s: np.sum(s[0] ** 2) + s[1]["rate"][0],
    ),
    "elements": (by_elements, lambda x: x * x, lambda u: u[0] * u[2]),
    "branches": (branching, lambda x: x, np.sum),
    "scalars": (of_scalars, lambda x: (0.0, x[0], 0), lambda s: s[1] * s[0]),
    "views": (through_views, lambda x: x, lambda u: np.sum(u**3)),
    "leaves that are swapped": (unchanged, lambda x: (x, 2 * x, x[1]), lambda s: np.sum(s[0] * s[1]) * s[2]),
    "matrix products": (matrices, lambda x: x, np.sum),
    "a class of two": (of_named, lambda x: Pair(x, x**2), lambda s: np.sum(s.a * s.b)),
}
X = np.array([0.7, 0.4, 0.9])
N = 11


def written_out(program, n=N):
    step, first, last = PROGRAMS[program]

    def f(x):
        state = first(x)
        for _ in range(n):
            state = step(state, x)
        return last(state)

    return f


def looped(program, n=N, **options):
    step, first, last = PROGRAMS[program]
    return lambda x: last(wg.loop(step, first(x), n, args=(x,), **options))


OPTIONS = {
    "written out": {"memory": None},
    "one state": {"checkpoints": 1},
    "three states": {"checkpoints": 3},
    "uniform": {"checkpoints": uniform(N, 3)},
    "bytes": {"memory": 40_000},
    "blocks of five": {"checkpoints": uniform(N, 2)},
    "compared": {"checkpoints": 2, "verify": True},
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_derivatives_of_loop_equal_those_of_plain_code(program):
    f, g = written_out(program), looped(program, checkpoints=2)
    v = np.array([1.0, -0.5, 2.0])
    assert g(X) == f(X)
    np.testing.assert_allclose(wg.grad(g, X), wg.grad(f, X), rtol=1e-13)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(wg.jacobian(g, X, mode=mode), wg.grad(f, X), rtol=1e-13)
    y, dy = wg.jvp(g, X, v)
    assert y == f(X)
    np.testing.assert_allclose(dy, wg.jvp(f, X, v)[1], rtol=1e-13)
    hessian = wg.hessian(f, X)
    for mode in ("auto", "forward", "reverse"):
        np.testing.assert_allclose(wg.hessian(g, X, mode=mode), hessian, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(wg.hvp(g, X, v), hessian @ v, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_schedule_gives_same_bits(program, tmp_path):
    found = [wg.grad(looped(program, **options), X, value=True) for options in OPTIONS.values()]
    found.append(wg.grad(looped(program, checkpoints=two_level(N, 1, 2), spill=str(tmp_path)), X, value=True))
    for y, slope in found:
        assert y == found[0][0] and slope.tobytes() == found[0][1].tobytes()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("program", ["in place", "parameters in the state", "views", "matrix products"])
def test_loop_gives_same_bits_as_plain_loop(program):
    """No element of an outer array is loaded: a tape shares such loads between steps, a checkpointed loop does not."""
    np.testing.assert_array_equal(wg.grad(looped(program, checkpoints=3), X), wg.grad(written_out(program), X))


def test_jacobians_and_pullbacks_equal_those_of_plain_code():
    def f(x, loop):
        u, v = loop(lambda s, x: (s[0] + 0.1 * s[1] * x, s[1] - 0.1 * s[0]), (x, x**2), x)
        return np.concatenate([u, v])

    def plain(step, s, x):
        for _ in range(N):
            s = step(s, x)
        return s

    def looped(step, s, x):
        return wg.loop(step, s, N, args=(x,), checkpoints=2)

    expected = wg.jacobian(f, X, args=(plain,), mode="reverse")
    for chunk in (None, 1, 2, 4):
        jacobian = wg.jacobian(f, X, args=(looped,), mode="reverse", chunk=chunk)
        np.testing.assert_allclose(jacobian, expected, rtol=1e-13, atol=1e-15)
    y, pullback = wg.vjp(lambda x: f(x, looped), X)
    np.testing.assert_array_equal(y, f(X, plain))
    for row, c in zip(expected, np.eye(6)):
        np.testing.assert_allclose(pullback(c), row, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(pullback(np.eye(6)), expected, rtol=1e-13, atol=1e-15)


def test_one_pullback_may_run_in_two_threads():
    _, pullback = wg.vjp(lambda x: wg.loop(lambda u: np.sin(u) + u, x, 50, checkpoints=3), X)
    expected = pullback(np.ones(3))
    found = []
    threads = [threading.Thread(target=lambda: found.append(pullback(np.ones(3)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(np.array_equal(g, expected) for g in found)


def test_linear_operators_match_the_jacobian():
    f = looped("matrix products", checkpoints=2)
    step, first, _ = PROGRAMS["matrix products"]

    def g(x):
        return wg.loop(step, first(x), N, args=(x,), checkpoints=2)

    expected = wg.jacobian(g, X)
    y, J = wg.linearize(g, X)
    np.testing.assert_array_equal(y, g(X))
    np.testing.assert_allclose(J @ np.eye(3), expected, rtol=1e-13)
    np.testing.assert_allclose(J.T @ np.eye(3), expected.T, rtol=1e-13)
    fun = wg.grad(f)
    assert fun.fun(X) == f(X)
    np.testing.assert_array_equal(fun(X), wg.grad(f, X))
    _, pullback = wg.vjp(g, X)
    with pytest.raises(wg.LevelError, match=r"use wengert.jvp"):
        wg.grad(lambda c: np.sum(pullback(c) ** 2), X)


# ---- values captured by a step


def test_closures_over_traced_values():
    def f(x, options):
        rate, base = x[0] * 2, np.exp(x)

        def step(u):
            return u + 0.1 * rate * np.sin(u) * base + np.log(rate) * 0.01  # the last term has captured values only

        return np.sum(wg.loop(step, x, N, **options) * rate)

    def plain(x):
        rate, base = x[0] * 2, np.exp(x)
        u = x
        for _ in range(N):
            u = u + 0.1 * rate * np.sin(u) * base + np.log(rate) * 0.01
        return np.sum(u * rate)

    for options in OPTIONS.values():
        np.testing.assert_allclose(wg.grad(f, X, args=(options,)), wg.grad(plain, X), rtol=1e-13)
    hessian = wg.hessian(f, X, args=({"checkpoints": 2},))
    np.testing.assert_allclose(hessian, wg.hessian(plain, X), rtol=1e-11)


def test_traced_closure_variable_is_differentiated():
    def f(x):
        return np.sum(wg.loop(lambda u: u * x[0] + 1.0, np.ones(2), N, checkpoints=2))

    np.testing.assert_allclose(wg.grad(f, X)[0], 2 * sum(k * 0.7 ** (k - 1) for k in range(1, N)) + 2 * N * 0.7**10)


def test_recomputed_steps_see_values_as_of_the_loop():
    def f(x):
        a = x * 1.0

        def step(u):
            return u * a

        u = wg.loop(step, x, 3, checkpoints=1)
        u[0] = 5.0 * x[0]
        a *= 100.0
        return np.sum(u * a)

    def plain(x):
        return 100 * (5 * x[0] * x[0] + x[1] ** 5 + x[2] ** 5)

    np.testing.assert_allclose(wg.grad(f, X), wg.grad(plain, X), rtol=1e-13)


def test_steps_may_write_into_outer_arrays():
    def f(x):
        work = np.zeros(3)

        def step(u):
            work[...] = np.sin(u)
            return u + work * x[0]

        return np.sum(wg.loop(step, x, N, checkpoints=2))

    def plain(x):
        u = x
        for _ in range(N):
            u = u + np.sin(u) * x[0]
        return np.sum(u)

    np.testing.assert_allclose(wg.grad(f, X), wg.grad(plain, X), rtol=1e-13)


@pytest.mark.parametrize("checkpoints", [1, uniform(N, 2)])
def test_outer_arrays_may_be_written_after_the_loop(checkpoints):
    def f(x, is_plain):
        work = np.zeros(3)

        def step(u):
            work[...] = np.sin(u)
            other = np.zeros(3)
            other[...] = np.cos(u)
            return u + work * other * x

        u = x
        for _ in range(N if is_plain else 0):
            u = step(u)
        u = u if is_plain else wg.loop(step, x, N, checkpoints=checkpoints)
        work[...] = 100.0
        return np.sum(u * work)

    np.testing.assert_allclose(wg.grad(f, X, args=(False,)), wg.grad(f, X, args=(True,)), rtol=1e-13)


def test_passive_blocks_may_be_in_and_around_loops():
    def step(u, x):
        with wg.passive():
            scale = 1.0 / np.sqrt(np.sum(u * u))
        return u * scale * x

    def f(x, options):
        return np.sum(wg.loop(step, x, 5, args=(x,), **options))

    np.testing.assert_array_equal(wg.grad(f, X, args=({"checkpoints": 1},)), wg.grad(f, X, args=({"memory": None},)))

    def g(x):
        with wg.passive():
            u = wg.loop(np.sin, x, 5, checkpoints=1)
        return np.sum(u * x)

    np.testing.assert_array_equal(wg.grad(g, X), wg.loop(np.sin, X, 5))


def test_steps_may_take_derivatives():
    def step(u, x):
        return u - 0.1 * wg.grad(lambda z: np.sum(np.cos(z) * x))(u)

    def f(x, options):
        return np.sum(wg.loop(step, x, 4, args=(x,), **options))

    np.testing.assert_allclose(
        wg.grad(f, X, args=({"checkpoints": 1},)), wg.grad(f, X, args=({"memory": None},)), rtol=1e-13
    )


def test_steps_may_solve_equations():
    def step(u, x):
        return wg.implicit.root(lambda z: z - u + 0.1 * z**3 * x, u)

    def f(x, options):
        return np.sum(wg.loop(step, x, 4, args=(x,), **options))

    for op in (wg.grad, wg.hessian):
        found, expected = [op(f, X, args=(options,)) for options in ({"checkpoints": 1}, {"memory": None})]
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_derivatives_may_be_nested_around_a_loop():
    def f(x, options):
        return np.sum(wg.loop(lambda u: u + 0.1 * np.sin(u) * x, x, 6, **options) ** 2)

    def outer(op):
        return [op({"checkpoints": 2}), op({"memory": None})]

    for found, expected in (
        outer(lambda o: wg.grad(lambda x: np.sum(wg.grad(f)(x, o) ** 2), X)),
        outer(lambda o: wg.jvp(lambda x: wg.grad(f)(x, o), X, np.ones(3))[1]),
        outer(lambda o: wg.grad(lambda x: wg.jvp(f)(x, np.ones(3), o)[1], X)),
        outer(lambda o: wg.grad(lambda x: np.sum(wg.hvp(f)(x, np.ones(3), o)), X)),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-11)


# ---- nesting


def test_nested_loops_and_calls_match_plain_loops():
    @wg.checkpoint
    def kick(u, x):
        return u + 0.1 * np.sin(u) * x

    def inner(u, x, options):
        return wg.loop(kick, u, 4, args=(x,), **options)

    def f(x, outer, options):
        u = wg.loop(inner, x, 5, args=(x, options), **outer)
        return np.sum(wg.checkpoint(lambda u: wg.loop(kick, u * u, 3, args=(x,), **options))(u))

    def plain(x):
        u = x
        for _ in range(20):
            u = u + 0.1 * np.sin(u) * x
        u = u * u
        for _ in range(3):
            u = u + 0.1 * np.sin(u) * x
        return np.sum(u)

    few, all_ = {"checkpoints": 1}, {"memory": None}
    for outer in (few, all_):
        for options in (few, all_):
            np.testing.assert_allclose(wg.grad(f, X, args=(outer, options)), wg.grad(plain, X), rtol=1e-14)
    np.testing.assert_allclose(wg.hessian(f, X, args=(few, few)), wg.hessian(plain, X), rtol=1e-11)


def test_checkpointed_calls_match_plain_calls():
    @wg.checkpoint
    def layer(u, weights, *, scale=1.0):
        """Apply one layer."""
        return {"out": np.tanh(weights["w"] @ u) * scale, "depth": 3, "norm": np.sum(u * u)}

    def f(w, x):
        first = layer(x, {"w": w}, scale=2.0)
        second = layer(first["out"] * first["depth"], {"w": w.T})
        return np.sum(second["out"]) * first["norm"]

    def plain(w, x):
        u = np.tanh(w @ x) * 2.0
        return np.sum(np.tanh(w.T @ (u * 3))) * np.sum(x * x)

    w = np.outer(X, X) + np.eye(3)
    assert layer.__doc__ == "Apply one layer."
    assert f(w, X) == plain(w, X)
    for i in (0, 1):
        np.testing.assert_array_equal(wg.grad(f, w, args=(X,), argnums=i), wg.grad(plain, w, args=(X,), argnums=i))
    np.testing.assert_allclose(wg.hessian(f, w, args=(X,)), wg.hessian(plain, w, args=(X,)), rtol=1e-11, atol=1e-14)


# ---- lengths, conditions, histories


@pytest.mark.parametrize("n", [0, 1, 2])
def test_loops_of_few_steps_equal_plain_loops(n):
    for options in OPTIONS.values():
        if not isinstance(options.get("checkpoints"), int | None):
            continue
        f = looped("in place", n, **options)
        assert f(X) == written_out("in place", n)(X)
        np.testing.assert_allclose(wg.grad(f, X), wg.grad(written_out("in place", n), X), rtol=1e-14)


@pytest.mark.parametrize("options", [{"memory": "1MB"}, {"memory": 50_000}, {"checkpoints": 3}])
def test_loops_with_a_condition_match_plain_loops(options):
    def cond(state, x):
        return np.sum(state[0]) < 40 * x[0]

    def step(state, x):
        return state[0] * 1.05 + 0.1 * np.sin(state[0]) * x, state[1] + 1

    def f(x):
        u, count = wg.loop(step, (x, 0), cond=cond, args=(x,), **options)
        return np.sum(u) * count

    def plain(x):
        state = x, 0
        while cond(state, x):
            state = step(state, x)
        return np.sum(state[0]) * state[1]

    assert f(X) == plain(X)
    np.testing.assert_allclose(wg.grad(f, X), wg.grad(plain, X), rtol=1e-13)
    np.testing.assert_allclose(wg.hessian(f, X), wg.hessian(plain, X), rtol=1e-11)


def test_condition_that_never_holds():
    def f(x):
        u = wg.loop(np.sin, x, cond=lambda u: False, checkpoints=2)
        u[0] = 3.0
        return np.sum(u * x)

    assert wg.grad(f, X).tolist() == [3.0, 0.8, 1.8]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("collect", [1, 3, 20, lambda s: {"first": s[0][0], "both": s[0] * s[1]}])
def test_collected_histories_match_plain_loops(collect, options):
    def step(s, x):
        return s[0] + 0.1 * s[1], s[1] - 0.1 * np.sin(s[0]) * x[0]

    def weigh(history):
        parts = history.values() if callable(collect) else history
        return sum(
            [np.sum(part**2 * (1 + np.arange(len(part))).reshape(-1, *[1] * (np.ndim(part) - 1))) for part in parts]
        )

    def f(x):
        last, history = wg.loop(step, (x, x**2), N, args=(x,), collect=collect, **options)
        return weigh(history) + np.sum(last[0])

    def plain(x):
        state, found = (x, x**2), []
        for k in range(1, N + 1):
            state = step(state, x)
            if callable(collect):
                found.append(collect(state))
            elif k % collect == 0:
                found.append({"first": state[0], "both": state[1]})
        total = np.sum(state[0])
        for j, item in enumerate(found):
            total = total + (j + 1) * (np.sum(item["first"] ** 2) + np.sum(item["both"] ** 2))
        return total

    np.testing.assert_allclose(f(X), plain(X), rtol=1e-14)
    np.testing.assert_allclose(wg.grad(f, X), wg.grad(plain, X), rtol=1e-12)
    np.testing.assert_allclose(wg.jacobian(f, X, mode="forward"), wg.grad(plain, X), rtol=1e-12)


def test_history_is_collected_without_derivative():
    last, history = wg.loop(lambda s: {"u": s["u"] / 2, "k": s["k"] + 1}, {"u": np.ones(2), "k": 0}, 4, collect=2)
    assert last == {"u": last["u"], "k": 4}
    assert history["u"].tolist() == [[0.25, 0.25], [0.0625, 0.0625]] and history["k"].tolist() == [2, 4]


def test_state_of_caller_is_unchanged():
    u = np.ones(3)
    assert wg.loop(in_place, u, 2, args=(X,)).tolist() != [1, 1, 1]
    wg.grad(lambda x: np.sum(wg.loop(in_place, u, 2, args=(x,), checkpoints=1)), X)
    assert u.tolist() == [1, 1, 1]


def test_programs_unroll_loops():
    f = looped("matrix products", checkpoints=2)
    program = wg.record(f, X)
    np.testing.assert_allclose(program(X * 1.1), f(X * 1.1), rtol=1e-13)
    np.testing.assert_allclose(wg.grad(wg.compile(f))(X), wg.grad(f, X), rtol=1e-13)


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name != "in place"])
def test_compiled_steps_match_plain_ones(program):
    step, first, last = PROGRAMS[program]
    compiled = wg.compile(step)
    found = []
    for options in OPTIONS.values():

        def f(x, options=options):
            return last(wg.loop(compiled, first(x), N, args=(x,), **options))

        found.append(wg.grad(f, X))
        assert compiled.paths > 0
    np.testing.assert_allclose(found[0], wg.grad(written_out(program), X), rtol=1e-13)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    np.testing.assert_allclose(wg.jacobian(f, X, mode="forward"), found[0], rtol=1e-13)
    np.testing.assert_allclose(wg.hessian(f, X), wg.hessian(written_out(program), X), rtol=1e-11, atol=1e-13)


def test_compiled_steps_reading_traced_values():
    def f(x):
        step = wg.compile(lambda u: u + 0.1 * np.sin(u) * x)
        return np.sum(wg.loop(step, x, N, checkpoints=2))

    expected = wg.grad(lambda x: np.sum(wg.loop(lambda u: u + 0.1 * np.sin(u) * x, x, N)), X)
    np.testing.assert_allclose(wg.grad(f, X), expected, rtol=1e-13)


def test_compiled_steps_may_have_too_many_branches():
    @wg.compile
    def step(u):
        r = 0.0
        for i in range(6):
            r += u[i] ** 2 if u[i] > 0 else np.sin(u[i])
        return u * 0.9 + 0.2 * np.roll(u, 1) * np.cos(r)

    rng = np.random.default_rng(3)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compile.*recordings for", UserWarning)
        for _ in range(12):
            u = rng.normal(size=6)
            found, expected = (
                wg.grad(lambda u, s=s: np.sum(wg.loop(s, u, 40, checkpoints=3, verify=True)), u) for s in (step, step.f)
            )
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "x", [X.astype(np.float32), np.float32(0.3), np.array(0.3), np.asfortranarray(np.outer(X, X)), np.ones((2, 0))]
)
def test_gradients_have_dtype_and_layout_of_the_input(x):
    def f(x, plain):
        def step(s):
            u, mask, count = s
            count[0] += 1
            return np.tanh(u.T * count[0]).T * 1.1, ~mask, count

        state = x, np.array([True, False]), np.zeros(1, dtype=int)
        if not plain:
            return np.sum(wg.loop(step, state, 7, checkpoints=2)[0])
        for _ in range(7):
            state = step(state)
        return np.sum(state[0])

    found, expected = wg.grad(f, x, args=(False,)), wg.grad(f, x, args=(True,))
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=10 * np.finfo(expected.dtype).eps)


def test_every_leaf_of_a_recomputed_state_is_compared():
    def step(u):
        return np.sqrt(u) - 0.5

    with wg.detect_nan(), pytest.raises(FloatingPointError, match="sqrt"):
        wg.grad(lambda x: np.sum(few(step, x)), X)


# ---- random generators


@pytest.mark.parametrize("where", ["state", "args", "variable", "partial", "RandomState", "random"])
def test_random_generators_are_reset_for_recomputed_steps(where):
    def noise(rng):
        return rng.gauss(0.0, 1.0) if isinstance(rng, random.Random) else rng.normal()

    def make():
        return {"RandomState": np.random.RandomState, "random": random.Random}.get(where, np.random.default_rng)(1)

    def f(x, plain):
        rng = make()

        def step(u, rng=None, other=rng):
            return u * (1 + 0.1 * noise(rng or other))

        if plain:
            u = x
            for _ in range(6):
                u = step(u)
            return np.sum(u) * (1 + noise(rng))
        if where == "state":
            u, _ = wg.loop(lambda s: (step(*s), s[1]), (x, rng), 6, checkpoints=2)
        elif where == "args":
            u = wg.loop(step, x, 6, args=(rng,), checkpoints=2)
        else:
            u = wg.loop(lambda u: step(u, rng), x, 6, checkpoints=2)
        return np.sum(u) * (1 + noise(rng))

    np.testing.assert_allclose(wg.grad(f, X, args=(False,)), wg.grad(f, X, args=(True,)), rtol=1e-14)


def test_global_generator_is_reset_for_recomputed_steps():
    def f(x):
        np.random.seed(3)  # noqa: NPY002
        u = wg.loop(lambda u: u * (1 + 0.1 * np.random.rand()), x, 6, checkpoints=2)  # noqa: NPY002
        return np.sum(u)

    with pytest.warns(UserWarning, match="global random generator"):
        found = wg.grad(f, X)
    np.random.seed(3)  # noqa: NPY002
    np.testing.assert_allclose(found, np.prod(1 + 0.1 * np.random.rand(6)), rtol=1e-14)  # noqa: NPY002


# ---- errors


def few(step, x, n=6, **options):
    return wg.loop(step, x, n, checkpoints=2, **options)


def test_value_kept_from_a_step_raises():
    def f(x):
        kept = []
        few(lambda u: kept.append(np.sum(u)) or u * 2, x)
        return sum(kept)

    with pytest.raises(wg.LevelError, match=r"a step of wengert.loop.*must be part of the state"):
        wg.grad(f, X)

    def g(x):
        kept = []
        few(lambda u: kept.append(u * x) or u * 2, x)
        return np.sum(kept[2])

    with pytest.raises(wg.LevelError, match="part of the state"):
        wg.grad(g, X)

    def hidden(x):
        kept = [x[0]]

        def step(u):
            kept[0] = kept[0] * u[0]
            return u * kept[0]

        return np.sum(few(step, x))

    with pytest.raises(wg.LevelError, match="part of the state"):
        wg.grad(hidden, X)
    with pytest.raises(wg.LevelError, match="part of the state"):
        wg.hessian(hidden, X)

    def of_outer_values(x):
        kept = {}

        def step(u):
            if "scale" not in kept:
                kept["scale"] = np.exp(x[0])  # of a captured value only
            return u * kept["scale"]

        return np.sum(few(step, x))

    with pytest.raises(wg.LevelError, match="part of the state"):
        wg.grad(of_outer_values, X)
    with pytest.raises(wg.LevelError, match="part of the state"):
        wg.grad(lambda x: (kept := [], wg.checkpoint(lambda: kept.append(x[0] * 2) or x)(), kept[0])[2], X)


def test_write_outside_the_state_raises():
    def of(write):
        def f(x):
            total = x * 1.0
            return np.sum(few(lambda u: write(total, u, x) or u * 2, x)) + np.sum(total)

        return f

    def elements(total, u, x):
        total[0] = u[1]

    def numbers(total, u, x):
        total[0] = 3.0

    def outer(total, u, x):
        total[0] = x[1]

    def sums(total, u, x):
        total += u

    for write in (elements, numbers, outer, sums):
        with pytest.raises(wg.LevelError, match="writes to a traced array"):
            wg.grad(of(write), X)
        with pytest.raises(wg.LevelError, match="writes to a traced array"):
            wg.hessian(of(write), X)

    def into_clean(x):
        total = np.zeros(3)

        def step(u):
            total[0] += u[0]
            return u * 2

        return np.sum(few(step, x)) + total[0]

    with pytest.raises(wg.LevelError, match="part of the state"):
        wg.grad(into_clean, X)


def test_step_that_changes_raises():
    def counter(x):
        calls = [0]

        def step(u):
            calls[0] += 1
            return u * calls[0]

        return np.sum(few(step, x, 4))

    with pytest.raises(wg.ReplayMismatchError, match="gave another result"):
        wg.grad(counter, X)
    with pytest.raises(wg.ReplayMismatchError, match="gave another result"):
        wg.hessian(counter, X)

    def verified(x):
        calls = [0]

        def step(u):
            calls[0] += 1
            return u * calls[0]

        return np.sum(few(step, x, 4, verify=True))

    with pytest.raises(wg.ReplayMismatchError, match=r"step \d gave another"):
        wg.grad(verified, X)

    def call(x):
        calls = [0]

        @wg.checkpoint
        def f(u):
            calls[0] += 1
            return u * calls[0]

        return np.sum(f(x))

    with pytest.raises(wg.ReplayMismatchError, match="the call gave another"):
        wg.grad(call, X)


@pytest.mark.parametrize("scalar", [False, True])
def test_reassigned_variable_raises(scalar):
    def f(x):
        a = x[0] * 1.0 if scalar else x * 1.0

        def step(u):
            return u * a

        u = few(step, x, 4)
        a = a * 1.0
        return np.sum(u) + np.sum(a)

    with pytest.raises(wg.ReplayMismatchError, match="assigned again"):
        wg.grad(f, X)
    with pytest.raises(wg.ReplayMismatchError, match="assigned again"):
        wg.hessian(f, X)


def test_changed_shape_or_structure_raises():
    with pytest.raises(ValueError, match=r"\[0\] has shape \(4,\) after the step and \(3,\) before it"):
        wg.loop(lambda s: (np.append(s[0], 1.0), s[1]), (X, 0), 2)
    with pytest.raises(ValueError, match="different structure"):
        wg.loop(lambda s: [*s], (X, 0), 2)
    with pytest.raises(ValueError, match="different structure"):
        wg.loop(lambda s: {"b": s["a"]}, {"a": X}, 2)
    with pytest.raises(ValueError, match=r"returned NoneType where the state was a number or an array"):
        wg.loop(lambda u: None, X, 2)
    with pytest.raises(ValueError, match="has shape"):
        wg.grad(lambda x: np.sum(few(lambda u: np.concatenate([u, u]), x)), X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either the number of steps n or the condition"),
        ({"n": 3, "cond": lambda u: True}, "either"),
        ({"n": -1}, "n must be a number of steps"),
        ({"n": 2.5}, "n must be a number of steps"),
        ({"n": 30, "checkpoints": 0}, "positive number"),
        ({"n": 30, "checkpoints": binomial(29, 3)}, "29 steps"),
        ({"n": 30, "memory": "2 loaves"}, "memory must be a number of bytes"),
        ({"n": 30, "memory": 1000}, "bytes"),
        ({"n": 30, "collect": 0}, "collect must be"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        wg.grad(lambda x: np.sum(wg.loop(np.sin, x, **options)), X)


def test_exception_releases_all_state():
    class Halt(Exception):
        pass

    calls = [0, 10**9]

    def step(u):
        calls[0] += 1
        if calls[0] > calls[1]:
            raise Halt
        return np.sin(u) + u

    def f(x):
        y = np.exp(x)
        return np.sum(few(step, y, 8) * x)

    expected = wg.grad(f, X)
    for op in (wg.grad, wg.hessian):
        calls[0] = 0
        op(f, X)
        for fails_at in range(1, calls[0], 5):
            calls[:] = 0, fails_at
            with pytest.raises(Halt):
                op(f, X)
            calls[:] = 0, 10**9
    np.testing.assert_array_equal(wg.grad(f, X), expected)

    _, pullback = wg.vjp(f, X)
    for fails_at in (1, 5, 12):
        calls[:] = 0, fails_at
        with pytest.raises(Halt):
            pullback(1.0)
        calls[:] = 0, 10**9
        np.testing.assert_array_equal(pullback(1.0), expected)


def test_step_may_handle_floating_point_errors():
    def step(u):
        try:
            return u / (u[0] - u[0]) if u[1] > 1 else u * 1.5
        except FloatingPointError:
            return u * 0.5

    with np.errstate(all="raise"):
        found = wg.grad(lambda x: np.sum(few(step, x, 5)), np.array([1.0, 0.9]))
    np.testing.assert_allclose(found, 1.5**3 * 0.5**2)


def test_no_references_are_kept_alive():
    class Model:
        def step(self, u):
            return np.sin(u) * self.scale

    model = Model()
    model.scale = np.ones(3)

    def f(x, model):
        return np.sum(few(model.step, x))

    wg.grad(f, X, args=(model,))
    wg.vjp(f)(X, model)[1](1.0)
    found = weakref.ref(model)
    del model
    gc.collect()
    assert found() is None


def test_progress_is_shown_in_both_directions(capsys):
    pytest.importorskip("tqdm")
    wg.grad(lambda x: np.sum(few(np.sin, x, progress=True)), X)
    shown = capsys.readouterr().err
    assert "forwards" in shown and "backwards" in shown and "6/6" in shown


def test_progress_without_tqdm_raises(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        wg.loop(np.sin, X, 3, progress=True)


def test_steps_run_as_predicted():
    calls = [0]

    def step(u):
        calls[0] += 1
        return np.sin(u)

    schedule = binomial(200, 5)
    wg.grad(lambda x: np.sum(wg.loop(step, x, 200, checkpoints=schedule)), X)
    counts = simulate(schedule)
    assert counts.advanced == schedule.extra_steps
    assert calls[0] == counts.advanced + counts.taped + 1  # the first step is run to measure it


MEMORY = """
import resource
import numpy as np, wengert as wg

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if {darwin} else 1)

def f(x, n):
    return np.sum(wg.loop(lambda u, a: u + 0.001 * a * (1 - u * u), x, n, args=(x[0],), memory="4MB"))

x = np.linspace(0.1, 0.5, 100)
wg.grad(f, x, args=(10,))
before = peak()
wg.grad(f, x, args=({n},))
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no resource usage")
def test_memory_stays_within_the_budget():
    script = MEMORY.format(n=20_000, darwin=sys.platform == "darwin")
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 8_000  # kB; the states alone would be 16 MB, the tape 98 MB


def test_measured_sizes_give_a_plan():
    from wengert.checkpointing import measure

    sizes = measure(lambda u: np.sin(u) * u, np.ones(1000))
    assert sizes["state_bytes"] >= 8000 and sizes["tape_bytes"] > sizes["state_bytes"]
    assert plan(100, memory=10**8, **sizes).extra_steps == 0
    assert plan(100, memory=10**6, **sizes).extra_steps > 0
