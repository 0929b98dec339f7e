"""One table of programs through three engines: eager forward, eager reverse, and replay of a recording.

A recording is replayed where it was made and elsewhere; its derivatives are recordings themselves, and are too.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import array_programs
import wengert as wg
from helpers import assert_same_bits
from primitive_cases import CALLS, COMPOSED, ELEMENTWISE, MOVES, SYMMETRIC, resolve
from scenarios import TABLE
from test_primitives import as_function, identity, moved_by, numbers_for
from wengert.containers import split
from wengert.errors import GuardError
from wengert.program import evaluate
from wengert.program.capture import NotReplayable
from wengert.program.program import Form
from wengert.program import record as recording


def record(f, args, kwargs, exact):
    return recording.record(f, args[0], args[1:], kwargs, exact)


@dataclass
class Case:
    """A program, the arguments at which it is recorded, and which of them are differentiated."""

    name: str
    f: Callable
    args: tuple
    wrt: tuple = (0,)
    jacobian: Callable | None = None
    branches: bool = False      # may a guard fail a little further on?
    dtype: Any = np.float64

    def points(self):
        """Where the recording was made, and near to it."""
        rng = np.random.default_rng(11)
        yield self.args
        yield tuple(shifted(x, rng) if i in self.wrt else x for i, x in enumerate(self.args))


def shifted(x, rng):
    """A point a little further on, in the layout of x."""
    if isinstance(x, float):
        return x + type(x)(0.01 * rng.uniform(-1, 1))
    return moved_by_dtype(x, 0.01 * rng.uniform(-1, 1, np.shape(x)))


def moved_by_dtype(x, step):
    moved = moved_by(x, step)
    return moved.astype(x.dtype, order="K") if isinstance(x, np.ndarray) else x.dtype.type(moved)


# ---------------------------------------------------------------------------------------------- the table

#: programs that are not replayed, and why
NOT_REPLAYED = {
    "method with a helper that makes a buffer": "attribute 'calls'",
    "a closure over numbers, arrays and functions": "a list, a dict",
    "a callable object that keeps its buffer": "attribute 'buffer'",
    "argument written by the program": "wrote into its argument",
}


def scenarios():
    for s in TABLE:
        if s.containers or s.name in NOT_REPLAYED:
            continue
        x = np.array(s.x, dtype=float) if isinstance(s.x, list) else s.x
        yield Case(s.name, s.f, (x, *s.args), jacobian=s.jacobian, dtype=s.dtype)


def primitives():
    for case in [*CALLS, *MOVES, *COMPOSED, *SYMMETRIC]:
        args = tuple(numbers_for(case))
        yield Case(identity(case), as_function(case), args, tuple(range(len(args))))


def array_cases():
    for name, f in array_programs.PROGRAMS.items():
        yield Case(name, f, (array_programs.X,))


def elementwise():
    for case in ELEMENTWISE:
        fun = resolve(case.fun)
        for at in case.smooth_at:
            yield Case(f"{case.name} of numbers at {at}", fun, tuple(map(float, at)), tuple(range(len(at))))
        x = tuple(np.array(column) for column in zip(*case.smooth_at))
        yield Case(f"{case.name} of arrays", fun, x, tuple(range(len(x))))


def every(table):
    table = list(table)
    return pytest.mark.parametrize("case", table, ids=[case.name.replace(" ", "_") for case in table])


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", wg.MutatedInputWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


# ---------------------------------------------------------------------------------------------- comparison

#: what a derivative may differ by, of a computation in a dtype
CLOSE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 5e-4}


def assert_close(got, expected, dtype=np.float64, what=""):
    """Equal to rounding, relative to the largest element; containers leaf by leaf."""
    found, wanted = split(got)[0], split(expected)[0]
    assert len(found) == len(wanted), what
    for a, b in zip(found, wanted):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
        assert b.dtype.kind != "f" or a.dtype == b.dtype, f"{what}: {a.dtype}, expected {b.dtype}"
        scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
        tolerance = CLOSE[np.dtype(dtype)]
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(scale, 1e-6), err_msg=what)


def loss_of(f):
    """A number made of all that f returns."""

    def loss(*args):
        parts = split(f(*args))[0]
        return sum(np.sum(part * np.cos(np.arange(np.size(part)).reshape(np.shape(part)) + i))
                   for i, part in enumerate(parts))

    return loss


def by_listing(program, args):
    """The value by the plain interpreter of lists."""
    return program.restore(evaluate.outputs(program._listing, [*Form(args, {}).leaves]))


def check_values(case):
    replay, exact = (record(case.f, case.args, {}, is_exact) for is_exact in (False, True))
    for args in case.points():
        expected = case.f(*copy.deepcopy(args))
        try:
            got = replay(*args)
        except GuardError:
            assert case.branches and args is not case.args
            continue
        assert_close(got, expected, case.dtype, "replay")
        assert_same_bits(exact(*args), expected, "exact")
        for program in (replay, exact):
            assert_close(by_listing(program, args), expected, case.dtype, "instruction by instruction")


def check_derivatives(case, at):
    several = len(split(case.f(*copy.deepcopy(case.args)))[0]) > 1
    f = loss_of(case.f) if several else case.f
    replay = record(f, case.args, {}, False)
    rng = np.random.default_rng(12)
    for args in list(case.points()):
        y = f(*copy.deepcopy(args))
        for k in case.wrt:
            direction = like(args[k], rng)
            cotangent = like(y, rng)
            try:
                pushed = replay.jvp(k)(args[0], direction, *args[1:]) if k == 0 else None
                value, pulled = replay.vjp(k)(args[0], cotangent, *args[1:])
            except GuardError:
                assert case.branches and args is not case.args
                continue
            assert_close(value, y, case.dtype)
            expected = wg.vjp(f, args[0], args=args[1:], argnums=k)[1](cotangent)
            assert_close(pulled, expected, case.dtype, f"vjp in {k}")
            if pushed is not None:
                expected = wg.jvp(f, args[0], direction, args=args[1:], argnums=k)[1]
                assert_close(pushed[1], expected, case.dtype, f"jvp in {k}")
            if np.size(y) * np.size(args[k]) <= 400:
                found = replay.jacobian(k)(*args)
                for mode in ("forward", "reverse"):
                    expected = wg.jacobian(f, argnums=k, mode=mode)(*args)
                    assert_close(found, expected, case.dtype, f"jacobian in {k}, {mode}")
                if case.jacobian is not None and args is case.args:
                    assert_close(found, np.asarray(case.jacobian(*args), case.dtype), case.dtype, "exact jacobian")


def like(x, rng):
    """Numbers in the form of an array or number."""
    x = np.asarray(x)
    return rng.uniform(-1, 1, x.shape).astype(x.dtype) if x.ndim else x.dtype.type(rng.uniform(-1, 1))


def check_second(case):
    f = loss_of(case.f)
    replay = record(f, case.args, {}, False)
    for args in list(case.points()):
        for k in case.wrt:
            if np.size(args[k]) > 60:
                continue
            try:
                found = replay.hessian(k)(*args)
                again = replay.grad(k).jacobian(k)(*args)
            except GuardError:
                assert case.branches and args is not case.args
                continue
            expected = wg.hessian(f, argnums=k)(*args)
            assert_close(found, expected, case.dtype, f"hessian in {k}")
            assert_close(again, expected, case.dtype, f"jacobian of the gradient in {k}")


GROUPS = [*scenarios(), *primitives(), *array_cases(), *elementwise()]


@every(GROUPS)
def test_values(case):
    check_values(case)


@every(GROUPS)
def test_derivatives(case):
    check_derivatives(case, 0)


@every(GROUPS)
def test_second_derivatives(case):
    check_second(case)
