"""Long kernels run in blocks, in one thread or several: the bits do not depend on the number of threads."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

import wengert as wg
from helpers import assert_same_bits, in_threads
from wengert.program.vm import machine

BLOCK = 1 << 15
RNG = np.random.default_rng(0)
TIERS = ["vm", *(["llvm"] if importlib.util.find_spec("llvmlite") else [])]


def waves(x):
    return np.sum(np.sin(x) * np.exp(-x * x)) + np.sum(x**3)


def sliced(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def stored(x):
    y = x.copy()
    y[1:-1, 1:-1] += 0.1 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1])
    return y * np.cos(y)


def centred(x):
    return np.sum(np.tanh(x - x.mean(axis=1, keepdims=True)) ** 2)


def softened(x, axis):
    top = np.max(x, axis=axis, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(x - top), axis=axis)) ** 2)


def turned(x):
    return np.sum(np.sqrt(1 + x.T**2)[::-1] * np.arange(x.shape[0]))


def signs(x):
    return np.sum(np.where(x > 0.3, x * x, np.where(np.isnan(x), 1.0, -x)))


CASES = [
    *[(waves, (n,)) for n in (2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1, 3 * BLOCK - 3, 5 * BLOCK + 513, 10 * BLOCK)],
    (sliced, (4 * BLOCK + 77,)),
    (stored, (301, 403)),
    (stored, (3, 60_000)),
    (centred, (500, 401)),
    (centred, (70_000, 3)),
    *[(lambda x, axis=axis: softened(x, axis), shape) for axis in (0, 1) for shape in ((300, 700), (9, 30_000))],
    (lambda x: softened(x, (0, 2)), (40, 50, 60)),
    (turned, (350, 300)),
    (signs, (6 * BLOCK,)),
]


@pytest.fixture
def threads():
    """Return a function that sets how many threads share a kernel in the VMs created afterwards."""
    yield machine.use_threads
    machine.use_threads(1)


def is_shared(f, *args):
    """Return whether several threads share an instruction of the compiled function `f`."""
    f(*args)
    before = machine.shared_tasks()
    f(*args)
    return machine.shared_tasks() > before


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("f", "shape"), CASES)
def test_bits_do_not_depend_on_number_of_threads(f, shape, tier, threads):
    x = RNG.standard_normal(shape)
    expected = f(x), wg.grad(lambda x: np.sum(f(x)), x)
    bits = []
    for count in (1, 2, 3, 5):
        threads(count)
        compiled = wg.compile(f, tier=tier)
        gradient = wg.grad(wg.compile(lambda x: np.sum(f(x)), tier=tier))
        bits.append((compiled(x), gradient(x)))
        assert is_shared(gradient, x) == (count > 1 and x.size >= 2 * BLOCK)
    for value, gradient in bits:
        assert_same_bits(value, bits[0][0])
        assert_same_bits(gradient, bits[0][1])
    np.testing.assert_allclose(bits[0][0], expected[0], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(bits[0][1], expected[1], rtol=1e-11, atol=1e-11)


def test_batch_points_and_jacobian_columns_are_distributed(threads):
    def f(x):
        return np.sin(x) * np.sum(np.exp(x))

    x = RNG.standard_normal((5000, 30))
    made = []
    for count in (1, 3):
        threads(count)
        batch = wg.grad(wg.compile(lambda x: np.sum(wg.vmap(lambda row: np.sum(f(row)))(x))))
        jacobian = wg.jacobian(wg.compile(f))
        at = x[:20].ravel()
        made.append((batch(x), jacobian(at)))
        assert is_shared(batch, x) == is_shared(jacobian, at) == (count > 1)
    assert_same_bits(made[1][0], made[0][0])
    assert_same_bits(made[1][1], made[0][1])
    np.testing.assert_allclose(made[0][0][7], wg.grad(lambda x: np.sum(f(x)), x[7]), rtol=1e-12)


def test_blockwise_sums_are_as_accurate_as_whole_sums(threads):
    terms = RNG.standard_normal(2**20) * 10.0 ** RNG.integers(-8, 8, 2**20)
    exact = float(np.sum(np.sort(terms).astype(np.longdouble)))
    found = wg.compile(lambda x: np.sum(x * 1.0), tier="vm")(terms)
    assert abs(found - exact) <= 2 * terms.size * np.finfo(float).eps * np.sum(np.abs(terms)) / 100


def test_concurrent_callers_run_without_busy_workers(threads):
    threads(3)
    x = [RNG.standard_normal(8 * BLOCK) for _ in range(4)]
    g = wg.grad(wg.compile(waves, tier="vm"))
    expected = [g(each) for each in x]

    def work(i):
        for _ in range(10):
            assert_same_bits(g(x[i]), expected[i])

    in_threads(work, 4)


CHILD = """
import os, sys
sys.path.insert(0, "tests")
import numpy as np, wengert as wg
from test_blocks import is_shared
f = wg.compile(lambda x: np.sum(np.sin(x) * np.exp(x)), tier="vm")
x = np.linspace(0.0, 1.0, 1 << 19)
y = f(x)
assert is_shared(f, x)
if hasattr(os, "fork"):
    child = os.fork()
    if child == 0:
        same = f(x) == y and not is_shared(f, x)
        again = wg.compile(lambda x: np.sum(np.sin(x) * np.exp(x)), tier="vm")
        same = same and again(x) == y and is_shared(again, x)
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
print("done")
"""


def run(code, **variables):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, timeout=120
    )


def test_environment_sets_thread_count_and_forked_child_starts_own_threads():
    made = run(CHILD, WENGERT_NUM_THREADS="2")
    assert made.stdout == "done\n", made.stderr


@pytest.mark.parametrize("text", ["0", "two", "-1", "1.5", "1000", ""])
def test_invalid_number_of_threads_raises(text):
    made = run("import wengert as wg; wg.compile(lambda x: x)(1.0)", WENGERT_NUM_THREADS=text)
    assert f"WENGERT_NUM_THREADS={text}: set it to the number of threads" in made.stderr
