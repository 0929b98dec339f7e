"""Examples run as scripts, and applications too, whose claims hold and which fail if they do not."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wengert

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
APPLICATIONS = Path(__file__).resolve().parent / "applications"


def run(name, figure, *options):
    """Return what an application prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", APPLICATIONS / f"{name}.py", "--figure", figure, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def load(name):
    """Import an example or an application as a module in this process."""
    folder = APPLICATIONS if (APPLICATIONS / f"{name}.py").exists() else EXAMPLES
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(text, name):
    """Return the numbers in the table row that begins with `name`."""
    (entries,) = re.findall(rf"^ *{re.escape(name)}((?: +[-+.\de]+)+)$", text, re.MULTILINE)
    return [float(entry) for entry in entries.split()]


def assert_is_a_drawing(path):
    from matplotlib.image import imread

    pixels = imread(path)
    assert pixels.shape[0] >= 500 and pixels.shape[1] >= 900
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 50


def test_thurber_agrees_with_nist_and_needs_fewer_calls_than_differences(tmp_path):
    figure = tmp_path / "fit.png"
    text = run("thurber_comparison", figure)
    assert row(text, "parameters")[0] >= 8
    assert row(text, "standard deviations")[0] >= 7
    exact, differences, defaults = row(text, "in least_squares")
    assert exact < differences and exact < defaults
    assert len(row(text, "time per Jacobian, microseconds")) == 3
    # three tables: fitted value, certified value and digits, for parameters and for standard deviations
    for i in range(1, 8):
        assert len(re.findall(rf"^ +b{i}(?: +\S+){{6}}$", text, re.MULTILINE)) == 3
    assert_is_a_drawing(figure)


def test_brusselator_finds_its_pattern_and_needs_fewer_calls_than_differences(tmp_path):
    figure = tmp_path / "profile.png"
    text = run("brusselator_loops", figure)
    exact, differences = row(text, "residual evaluations")
    assert exact < differences / 5
    assert text.count("PASS") == 4 and "FAIL" not in text
    assert row(text, "amplitude, max(u) - min(u)")[0] > 1
    assert_is_a_drawing(figure)


def test_heat_assimilation_stays_within_its_budget(tmp_path):
    figure = tmp_path / "states.png"
    options = ["--cells", "64", "--steps", "100", "--memory", "4e6", "--iterations", "30"]
    text = run("heat_assimilation", figure, *options)
    predicted, measured = row(text, "memory per gradient, MB")
    assert measured <= predicted <= 4.0
    assert text.count("PASS") == 6 and "FAIL" not in text
    assert_is_a_drawing(figure)


def test_black_scholes_agrees_with_closed_forms_where_differences_do_not(tmp_path):
    figure = tmp_path / "greeks.png"
    text = run("black_scholes_greeks", figure, "--options", "50000")
    for greek in ("delta", "gamma", "theta", "rho", "vega"):
        exact, *_, closed, differences = map(float, text.partition(f"  {greek} ")[2].split("\n")[0].split())
        assert exact < 1e-13 and closed == 0 and differences > 1e-11
    assert_is_a_drawing(figure)


def test_black_scholes_fails_when_a_greek_is_off(tmp_path, monkeypatch, capsys):
    greeks = load("black_scholes_greeks")
    monkeypatch.setattr(sys, "argv", ["greeks.py", "--options", "100", "--figure", str(tmp_path / "greeks.png")])
    by_hand = greeks.closed_form

    def changed(x, strike):
        exact, scales = by_hand(x, strike)
        return {**exact, "vega": exact["vega"] * (1 + 1e-12)}, scales

    monkeypatch.setattr(greeks, "closed_form", changed)
    assert greeks.main() == 1
    assert "failed: vega, programs on arrays: scaled error" in capsys.readouterr().err


def test_bratu_converges_quadratically_and_finds_the_fold(tmp_path):
    figure = tmp_path / "bratu.png"
    text = run("bratu_newton", figure, "--points", "30", "--fold-points", "15")
    exact, differences = row(text, "function evaluations per Jacobian")
    assert exact == 0 and differences > 5
    assert text.count("PASS") == 5 and "FAIL" not in text
    assert_is_a_drawing(figure)


def test_bratu_fails_with_another_jacobian_or_fold(tmp_path, monkeypatch, capsys):
    bratu = load("bratu_newton")
    options = ["--points", "12", "--fold-points", "15", "--figure", str(tmp_path / "bratu.png")]
    monkeypatch.setattr(sys, "argv", ["bratu_newton.py", *options])
    exact = bratu.jacobian
    monkeypatch.setattr(bratu, "FOLD", bratu.FOLD * 1.001)

    def off(*args):
        return exact(*args) * (1 + 1e-3)

    off.pattern, off.plan = wengert.sparsity(bratu.bratu, np.zeros(144), args=(6.0,)), None
    monkeypatch.setattr(bratu, "jacobian", off)
    assert bratu.main() == 1
    failed = capsys.readouterr().err
    for claim in ("relative error of the Jacobian", "2 - order of convergence", "error of extrapolated lambda"):
        assert f"failed: {claim}" in failed


def test_bryson_denham_finds_the_effort_and_its_derivative(tmp_path):
    figure = tmp_path / "control.png"
    text = run("bryson_denham", figure, "--intervals", "9")
    exact, differences = row(text, "function evaluations")
    assert exact < differences / 5
    assert abs(row(text, "d effort / d limit")[0] + 36) < 0.02
    assert text.count("PASS") == 7 and "FAIL" not in text
    assert_is_a_drawing(figure)


def test_bryson_denham_fails_with_another_hessian_or_solution(tmp_path, monkeypatch, capsys):
    control = load("bryson_denham")
    options = ["--intervals", "6", "--figure", str(tmp_path / "control.png")]
    monkeypatch.setattr(sys, "argv", ["bryson_denham.py", *options])
    closed_form = control.x_in_closed_form
    by_hand = control.hessian_by_hand
    monkeypatch.setattr(control, "x_in_closed_form", lambda t: closed_form(t) * 1.01)
    monkeypatch.setattr(control, "hessian_by_hand", lambda *args: by_hand(*args) * (1 + 1e-6))
    assert control.main() == 1
    failed = capsys.readouterr().err
    assert "failed: error of the Hessian" in failed and "failed: error of the position" in failed


def test_sparse_brusselator_needs_fewer_evaluations_than_differences(tmp_path):
    figure = tmp_path / "fields.png"
    text = run("brusselator_sparse", figure, "--cells", "8")
    for method, ways in ("BDF", ["sparse", "dense"]), ("Radau", ["sparse"]):
        exact = row(text, f"{method}, sparse=True")
        for way in ways:
            differences = row(text, f"{method}, {way} differences")
            assert exact[0] < differences[0] and exact[1:3] == differences[1:3]
    assert text.count("PASS") == 8 and "FAIL" not in text
    assert_is_a_drawing(figure)


def test_sparse_brusselator_fails_with_another_jacobian_or_solution(tmp_path, monkeypatch, capsys):
    brusselator = load("brusselator_sparse")
    options = ["--cells", "4", "--figure", str(tmp_path / "fields.png")]
    monkeypatch.setattr(sys, "argv", ["brusselator_sparse.py", *options])
    by_hand = brusselator.jacobian_by_hand
    monkeypatch.setattr(brusselator, "jacobian_by_hand", lambda z: by_hand(z) * (1 + 1e-14))
    monkeypatch.setattr(brusselator.Solution, "minus", lambda solution, other: 1.0)
    assert brusselator.main() == 1
    failed = capsys.readouterr().err
    assert "failed: relative error of the Jacobian" in failed
    assert "failed: BDF, dense differences: error / tolerance" in failed


def test_bundle_adjustment_finds_the_scene_as_well_as_the_noise_allows(tmp_path):
    figure = tmp_path / "errors.png"
    text = run("bundle_adjustment", figure, "--cameras", "8", "--points", "100")
    exact, differences = row(text, "residual evaluations")
    assert exact < differences / 5
    before, after = (row(text, f"{time} RMS error, pixels")[0] for time in ("initial", "final"))
    assert after < 0.5 < 10 < before
    assert text.count("PASS") == 5 and "FAIL" not in text
    assert_is_a_drawing(figure)


def test_bundle_adjustment_fails_with_another_noise_or_direction(tmp_path, monkeypatch, capsys):
    bundle = load("bundle_adjustment")
    options = ["--cameras", "8", "--points", "100", "--figure", str(tmp_path / "errors.png")]
    monkeypatch.setattr(sys, "argv", ["bundle_adjustment.py", *options])
    monkeypatch.setattr(bundle.Scene, "growth", lambda scene, z: z)
    monkeypatch.setattr(bundle, "GAUGE", 200)
    assert bundle.main() == 1
    failed = capsys.readouterr().err
    assert "failed: J @ (scaling of the scene)" in failed and "failed: chi squared" in failed


def test_kepler_agrees_with_closed_forms_and_with_refits(tmp_path):
    figure = tmp_path / "orbit.png"
    text = run("kepler_orbit", figure)
    for name in ("period, days", "eccentricity", "K, m/s"):
        first, second = re.findall(rf"^{name}((?: +[-.\d]+)+)$", text, re.MULTILINE)
        *_, off, digits = map(float, first.split())
        assert abs(off) < 3 and digits >= 11
        influence, refits, linear = map(float, second.split())
        assert abs(influence - refits) < 1e-3 * abs(refits) + 1e-8 < abs(influence - linear)
    assert_is_a_drawing(figure)


def test_kepler_fails_with_another_jacobian_or_orbit(tmp_path, monkeypatch, capsys):
    kepler = load("kepler_orbit")
    monkeypatch.setattr(sys, "argv", ["kepler_orbit.py", "--figure", str(tmp_path / "orbit.png")])
    closed_form = kepler.jacobian_in_closed_form
    with monkeypatch.context() as changed:
        changed.setattr(kepler, "jacobian_in_closed_form", lambda *args: closed_form(*args) * (1 + 1e-9))
        assert kepler.main() == 1
    assert "failed: Jacobian" in capsys.readouterr().err
    t, v, error = kepler.observe()
    monkeypatch.setattr(kepler, "observe", lambda: (t, v * 1.05, error))
    assert kepler.main() == 1
    assert "does not agree with the true orbit" in capsys.readouterr().err


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
    assert len(agree) == 7 and np.min(np.array(agree, dtype=float), axis=0).tolist() >= [8.0, 7.0]
    assert_is_a_drawing(figure)
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize(
    ("script", "name"),
    [("thurber", "PARAMETERS"), ("thurber", "DEVIATIONS"), ("thurber_comparison", "CERTIFIED"),
     ("thurber_comparison", "CERTIFIED_DEVIATIONS")],
)  # fmt: skip
def test_thurber_fails_when_the_digits_are_too_few(script, name, tmp_path, monkeypatch):
    thurber = load(script)
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--figure", str(tmp_path / "fit.png")])
    monkeypatch.setattr(thurber, name, np.array(getattr(thurber, name)) * (1 + 2e-7))
    assert thurber.main() == 1


def test_brusselator_fails_without_a_pattern_or_with_another_jacobian(tmp_path, monkeypatch, capsys):
    brusselator = load("brusselator_loops")
    monkeypatch.setattr(sys, "argv", ["brusselator_loops.py", "--figure", str(tmp_path / "profile.png")])

    Model = brusselator.Brusselator
    by_hand = Model.jacobian_by_hand
    with monkeypatch.context() as changed:
        changed.setattr(Model, "jacobian_by_hand", lambda model, z: by_hand(model, z) * (1 + 1e-14))
        assert brusselator.main() == 1
    assert "failed: Jacobian" in capsys.readouterr().err

    monkeypatch.setattr(Model, "start", lambda model: np.repeat([model.A, model.B / model.A], model.n))
    assert brusselator.main() == 1
    assert "failed: the solution is the uniform state" in capsys.readouterr().err


GALLERY = sorted((EXAMPLES / "gallery").glob("plot_*.py"))


@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_script_of_the_gallery(script):
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
