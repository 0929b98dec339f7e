"""The runner of NPBench's kernels, on a checkout with a kernel of our own."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.npbench import __main__ as table
from benchmarks.npbench import kernels, worker

pytestmark = pytest.mark.filterwarnings("ignore::wengert.MutatedInputWarning")

NUMPY = """
import numpy as np

def kernel(steps, c, A, B):
    for _ in range(steps):
        B[1:-1] = c * A[:-2] * A[2:]
        A[1:-1] = B[:-2] + np.sin(B[2:])
"""
START = """
import numpy as np

def initialize(N, datatype=np.float64):
    return datatype(0.5), np.linspace(0.1, 1.1, N), np.ones(N)
"""
DESCRIPTION = {
    "relative_path": "own/swap", "module_name": "swap", "func_name": "kernel",
    "parameters": {"S": {"steps": 3, "N": 7}},
    "init": {"func_name": "initialize", "input_args": ["N"], "output_args": ["c", "A", "B"]},
    "input_args": ["steps", "c", "A", "B"], "array_args": ["A", "B"], "output_args": ["A", "B"],
}  # fmt: skip


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "npbench" / "benchmarks" / "own" / "swap"
    folder.mkdir(parents=True)
    (folder / "swap_numpy.py").write_text(NUMPY)
    (folder / "swap.py").write_text(START)
    (tmp_path / "bench_info").mkdir()
    (tmp_path / "bench_info" / "swap.json").write_text(json.dumps({"benchmark": DESCRIPTION}))
    return tmp_path


def test_kernel_is_checked_in_every_array(checkout):
    found = worker.main(checkout, "swap", {"check": True})
    assert found["verdicts"] == {name: {"eager": "right", "vm": "right"} for name in "AB"}


def test_kernel_is_timed_and_its_row_printed(checkout):
    found = worker.main(checkout, "swap", {"time": True, "rounds": 3, "modes": ["eager", "vm"]})
    assert set(found["times"]) == {"f", "eager", "vm"} and not found["remembered"]
    cells = table.row(found)
    assert len(cells) == len(table.HEAD) and cells[:2] == ["swap", "right"]


def test_wrong_gradients_and_changed_arguments_are_reported(checkout):
    kernel = kernels.Kernel(checkout, DESCRIPTION)
    results, indices = kernel.results()
    expected = worker.slope(kernel, kernel.loss(results, indices), 2)
    assert "instead of" in worker.verdict(kernel, lambda *args: np.ones(7), 2, expected)

    def changes(steps, c, A, B):
        B += 1
        return A

    assert "changed" in worker.verdict(kernel, changes, 2, expected)


def test_averages_leave_out_gradients_that_do_not_depend_on_the_point():
    outcomes = [
        {"kernel": "a", "times": {"f": 1.0, "vm": 2.0, "jax": 4.0}, "remembered": False},
        {"kernel": "b", "times": {"f": 1.0, "vm": 1.0, "llvm": 0.5, "jax": 4.0}, "remembered": False},
        {"kernel": "c", "times": {"f": 1.0, "vm": 0.1, "jax": 4.0}, "remembered": True},
        {"kernel": "d", "failed": "exit status 1"},
    ]
    (line,) = table.summary(outcomes)
    assert line == "JAX over compiled, 2 kernels: geometric mean 4.00, mean 5.00 (2.00 without the largest)"
    assert table.row(outcomes[-1]) == ["d", "exit status 1"]
