"""Examples run as scripts without warnings, draw their figures, and fail if what they claim does not hold."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares, root

import wengert
from applications import Counted

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def load(name):
    """Import an example as a module in this process."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_is_a_drawing(path):
    from matplotlib.image import imread

    pixels = imread(path)
    assert pixels.shape[0] >= 500 and pixels.shape[1] >= 900
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 50


def test_thurber_needs_fewer_calls_than_differences():
    thurber = load("thurber")
    tight = {"x_scale": "jac", "xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
    jacobian = wengert.jacobian(thurber.residual)
    calls = []
    for options in {"jac": jacobian, **tight}, {"jac": "2-point", **tight}, {}:  # the last are SciPy's defaults
        counted = Counted(thurber.residual)
        found = least_squares(counted, [1000, 1000, 400, 40, 0.7, 0.3, 0.03], **options)
        np.testing.assert_allclose(found.x, thurber.PARAMETERS, rtol=1e-3)
        calls.append(counted.calls)
    assert calls[0] < calls[1] and calls[0] < calls[2]


def test_zero_of_the_gradient_is_the_certified_fit():
    """The exact gradient shows digits of the parameters that rounding of the cost hides."""
    thurber = load("thurber")
    jacobian = wengert.jacobian(thurber.residual)
    near = np.array(thurber.PARAMETERS) * (1 + 1e-6)
    scale = 1 / np.linalg.norm(jacobian(near), axis=0)  # the parameters span five orders of magnitude
    found = root(lambda q: scale * (jacobian(scale * q).T @ thurber.residual(scale * q)), near / scale, tol=1e-12)
    np.testing.assert_allclose(scale * found.x, thurber.PARAMETERS, rtol=1e-8)


def test_thurber_data_equal_nist():
    thurber = load("thurber")
    lines = (Path(__file__).parent / "data" / "nist_strd" / "Thurber.dat").read_text().splitlines()[60:]
    y, x = np.array([line.split() for line in lines if line.strip()], dtype=float).T
    np.testing.assert_array_equal(thurber.mobility, y)
    np.testing.assert_array_equal(thurber.log_density, x)


def test_thurber_runs_as_the_readme_says(tmp_path):
    script, figure = EXAMPLES / "thurber.py", tmp_path / "fit.png"
    done = subprocess.run(
        [sys.executable, "-W", "error", script, "--figure", figure],
        capture_output=True, text=True, check=False, env={**os.environ, "MPLBACKEND": "agg"},
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    agree = re.findall(r"^b\d = \S+ \+- \S+, ([\d.]+) and ([\d.]+) digits", done.stdout, re.MULTILINE)
    assert len(agree) == 7 and np.all(np.array(agree, dtype=float) >= [8.0, 7.0])
    assert_is_a_drawing(figure)
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize("name", ["PARAMETERS", "DEVIATIONS"])
def test_thurber_fails_when_the_digits_are_too_few(name, tmp_path, monkeypatch):
    thurber = load("thurber")
    monkeypatch.setattr(sys, "argv", ["thurber.py", "--figure", str(tmp_path / "fit.png")])
    monkeypatch.setattr(thurber, name, np.array(getattr(thurber, name)) * (1 + 2e-7))
    assert thurber.main() == 1


GALLERY = sorted((EXAMPLES / "gallery").glob("plot_*.py"))


@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_script_of_the_gallery_runs_without_warnings(script):
    """Run a script with warnings as errors; it prints a result and draws one figure with labelled axes."""
    code = f"""
import runpy
import matplotlib.pyplot as plt
runpy.run_path({str(script)!r}, run_name="__main__")
axes = [axis for axis in plt.gcf().axes if not axis.get_label()]
assert len(plt.get_fignums()) == 1 and any(axis.get_xlabel() for axis in axes)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MPLBACKEND": "agg"},
    )
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    assert re.search(r"\d", done.stdout)
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 60
