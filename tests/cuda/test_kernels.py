"""Kernels without a GPU: in Numba's simulator, as PTX and native code, on disk, and by the interpreter."""

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
from scenarios import TABLE
from wengert.cuda import binaries, interpreter, kernels

pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install 'wengert[cuda]'")

FORTY = next(s for s in TABLE if s.name == "forty operations on six numbers")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """Use an empty cache, without kernels of other tests or versions."""
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(binaries, "_BINARIES", {})


@pytest.fixture
def forty():
    return wg.record(FORTY.f, FORTY.x)


# ---------------------------------------------------------------------------------------------- the simulator

#: run on a simulated device: kernels with points in rows, in columns, and inputs shared by all points
SIMULATED = """
import json
import sys

import numpy as np
from numba import cuda

import wengert as wg
from scenarios import TABLE
from wengert.cuda import kernels

assert cuda.is_available()
s = next(s for s in TABLE if s.name == "forty operations on six numbers")
program = wg.record(s.f, s.x)
X = np.random.default_rng(1).uniform(0.3, 1.5, (37, 6))
found = {}
for layouts in ("CCC", "FFF", "CFC"):
    for mode in ("grad", "jacobian"):
        (body,) = kernels.bodies(program, mode)
        y, D = np.full((37, 1), np.nan), np.full((37, 6), np.nan)
        kernel = cuda.jit(kernels.kernel(body, layouts, "simulator"))
        kernel[5, 8](37, X, y, D)
        found[layouts + mode] = y.tolist(), D.tolist()

def branching(x, a):
    return x[0] * a if x[1] > 0 else x[0] - a

X = np.array([[1.0, 2.0], [2.0, -1.0], [3.0, 0.5], [4.0, 4.0]])
(body,) = kernels.bodies(wg.record(branching, X[0], args=(2.0,)), "grad")
y, g, status = np.zeros((4, 1)), np.zeros((4, 2)), np.full(4, -1, np.int32)
kernel = cuda.jit(kernels.kernel(body, "CSCCC", "simulator"))
kernel[2, 3](4, X, np.array([2.0]), y, g, status)
found["branching"] = y.tolist(), g.tolist(), status.tolist()
json.dump(found, sys.stdout)
"""


def test_kernels_run_in_the_simulator():
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SIMULATED], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    y, g, status = found.pop("branching")
    assert status == [0, 1, 0, 0]
    assert [y[0], y[2], y[3]] == [[2.0], [6.0], [8.0]]
    assert g[0] == [2.0, 0.0]
    X = np.random.default_rng(1).uniform(0.3, 1.5, (37, 6))
    for layouts, (y, D) in found.items():
        assert np.abs(np.ravel(y) - [FORTY.f(x) for x in X]).max() < 4e-15, layouts
        assert np.abs(np.array(D) - [FORTY.jacobian(x) for x in X]).max() < 4e-15, layouts


# ---------------------------------------------------------------------------------------------- layouts on the CPU


@pytest.mark.parametrize("layouts", ["CCC", "FFF", "CFC", "FCF"])
def test_points_may_be_rows_or_columns(forty, layouts):
    (body,) = kernels.bodies(forty, "grad")
    X = np.random.default_rng(1).uniform(0.3, 1.5, (11, 6))
    arrays = [np.array(a, order=letter) for a, letter in zip([X, np.empty((11, 1)), np.empty((11, 6))], layouts)]
    kernels.kernel(body, layouts, "cpu")(11, *arrays)
    assert np.abs(arrays[2] - [FORTY.jacobian(x) for x in X]).max() < 4e-15


def test_points_may_share_an_input():
    program = wg.record(lambda x, A: np.sum(A @ x * x), np.ones(2), args=(np.eye(2),))
    (body,) = kernels.bodies(program, "grad")
    A, X = np.array([[1.0, 2.0], [3.0, 4.0]]), np.random.default_rng(0).normal(size=(5, 2))
    y, g = np.empty((5, 1)), np.empty((5, 2))
    kernels.kernel(body, "CSCC", "cpu")(5, X, A.ravel(), y, g)
    np.testing.assert_allclose(g, X @ (A + A.T).T, rtol=1e-14)


# ---------------------------------------------------------------------------------------------- native code


def lorenz_step(u):
    def velocity(u):
        x, y, z = u
        return np.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z])

    h = 0.01
    a = velocity(u)
    b = velocity(u + h / 2 * a)
    c = velocity(u + h / 2 * b)
    return u + h / 6 * (a + 2 * b + 2 * c + velocity(u + h * c))


def black_scholes(p):
    from scipy.special import erf

    spot, strike, rate, volatility, time = p
    root = volatility * np.sqrt(time)
    d = (np.log(spot / strike) + (rate + volatility**2 / 2) * time) / root
    normal = lambda z: 0.5 * (1 + erf(z / np.sqrt(2)))
    return spot * normal(d) - strike * np.exp(-rate * time) * normal(d - root)


STANDARD = {
    "forty operations": (FORTY.f, FORTY.x),
    "Lorenz step": (lorenz_step, np.array([1.0, 2.0, 20.0])),
    "Black-Scholes": (black_scholes, np.array([100.0, 95.0, 0.03, 0.2, 0.7])),
    "Rosenbrock": (lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), np.linspace(0.5, 1.5, 8)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", STANDARD)
def test_standard_programs_do_not_spill(name, dtype):
    f, x = STANDARD[name]
    program = wg.record(f, x)
    for mode in ("value", "jacobian"):
        for body in kernels.bodies(program, mode, dtype=dtype):
            report = kernels.report(body)
            assert report.spill_bytes == 0
            assert 0 < report.registers <= 255
            assert (report.name, report.dtype, report.cc) == (body.name, dtype, (9, 0))
            assert report.statements == len(body) > 0 and report.ptx_lines > report.statements / 2


def test_forty_operations_and_their_gradient_take_at_most_80_registers(forty):
    (body,) = kernels.bodies(forty, "grad")
    report = kernels.report(body, cc=(9, 0))
    assert report.registers <= 80
    assert report.spill_bytes == 0
    (single,) = kernels.bodies(forty, "grad", dtype="float32")
    assert kernels.report(single).registers < report.registers


@pytest.mark.parametrize("cc", [(7, 5), (8, 0), (9, 0), (10, 0), (12, 0)])
def test_kernels_are_compiled_and_assembled_for_every_architecture(forty, cc):
    (body,) = kernels.bodies(forty, "grad")
    text = kernels.ptx(body, cc)
    assert f".target sm_{cc[0]}{cc[1]}" in text
    code, log = binaries.assembled(text, cc)
    assert code[:4] == b"\x7fELF" and "registers" in log


def test_a_float32_kernel_computes_in_float32():
    program = wg.record(lambda x: np.exp(0.1 * x[0]) / (x[1] + 1e-9) + np.sqrt(x[1]) ** 0.3, np.ones(2))
    (body,) = kernels.bodies(program, "jacobian", dtype="float32")
    text = kernels.ptx(body)
    assert "f32" in text and ".f64" not in text


def test_two_thousand_statements_compile_to_ptx():
    def f(x):
        v = list(x)
        for i in range(500):
            v.append(np.sin(v[i]) if i % 20 == 0 else v[i] * v[i + 2] if i % 3 else v[i] - 0.5 * v[-1])
        return sum(v[-4:])

    (body,) = kernels.bodies(wg.record(f, np.linspace(0.1, 0.6, 6)), "grad")
    text = kernels.ptx(body)
    assert len(body) > 2000 and text.count("\n") > 2000


def test_compiled_kernels_are_found_in_memory_and_on_disk(forty, tmp_path, monkeypatch):
    (body,) = kernels.bodies(forty, "grad")
    made = kernels.binary(body)
    assert made.report.seconds > 0
    assert kernels.binary(body) is made
    (file,) = tmp_path.iterdir()
    monkeypatch.setattr(binaries, "_BINARIES", {})
    found = kernels.binary(body)
    assert found == dataclasses.replace(made, report=dataclasses.replace(made.report, seconds=0.0))
    assert len({kernels.binary(body, (8, 0)).code, kernels.binary(body, layouts="FFF").code, made.code}) == 3
    assert len([*tmp_path.iterdir()]) == 3
    file.write_bytes(file.read_bytes()[:-10])  # truncate the file
    monkeypatch.setattr(binaries, "_BINARIES", {})
    assert kernels.binary(body).report.seconds > 0


def test_kernels_compile_without_writable_cache(forty, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path / "file" / "folder"))
    (body,) = kernels.bodies(forty, "value")
    assert kernels.binary(body).code[:4] == b"\x7fELF"


# ---------------------------------------------------------------------------------------------- the interpreter


@pytest.fixture(scope="module")
def interpreters():
    return {dtype: interpreter.kernel(dtype, "cpu") for dtype in ("float64", "float32")}


def interpreted(kernel, body, inputs, layouts=""):
    """Return the outputs of a body by the interpreter."""
    n = len(inputs[0])
    outputs = [np.full((n, math.prod(shape)), np.nan, body.dtype) for shape in body.outputs]
    arrays = [*inputs, *outputs, *([np.full(n, -1, np.int32)] if body.guards else [])]
    arrays = [np.array(x, order=letter) for x, letter in zip(arrays, layouts or "C" * len(arrays))]
    found = interpreter.tables(body)
    where = interpreter.strides(body, n, layouts)
    where[:, 0] = [x.ctypes.data for x in arrays]
    kernel(n, len(found.code), found.code, found.constants, where, np.empty(found.slots, body.dtype))
    return arrays[len(inputs) :]


@pytest.mark.parametrize("layouts", ["CCC", "FCF"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_interpreter_agrees_with_kernel(forty, interpreters, dtype, layouts):
    (body,) = kernels.bodies(forty, "grad", dtype=dtype)
    X = np.random.default_rng(1).uniform(0.3, 1.5, (20, 6)).astype(dtype)
    y, g = interpreted(interpreters[dtype], body, [X], layouts)
    expected = np.empty((20, 1), dtype), np.empty((20, 6), dtype)
    kernels.kernel(body, target="cpu")(20, X, *expected)
    tolerance = 1e-14 if dtype == "float64" else 5e-6
    np.testing.assert_allclose(y, expected[0], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(g, expected[1], rtol=tolerance, atol=tolerance)
    assert interpreter.tables(body).slots <= body.alive() + 20


def test_the_interpreter_runs_branches_and_guards(interpreters):
    def f(x):
        y = np.where((x > 0) & ~(x > 2), np.sqrt(np.abs(x)), x % 0.75)
        return y if x[0] > 0.5 else -y

    X = np.array([[1.0, 2.0, -1.0], [0.2, 1.0, 3.0], [3.0, 0.0, 0.1]])
    program = wg.record(f, X[0])
    (body,) = kernels.bodies(program, "jacobian")
    y, J, status = interpreted(interpreters["float64"], body, [X])
    assert status.tolist() == [0, 1, 0]
    for i in (0, 2):
        np.testing.assert_allclose(y[i], f(X[i]), rtol=1e-15)
        np.testing.assert_allclose(J[i].reshape(3, 3), wg.jacobian(f, X[i]), rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_interpreter_is_compiled_for_the_gpu(dtype):
    report = interpreter.binary(dtype).report
    assert report.registers <= 64
    assert report.spill_bytes <= 64
