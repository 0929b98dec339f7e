"""Check the benchmark of published packages on functions defined here: its verdicts, reasons, processes and page."""

import json
import os
import queue
import sys
from pathlib import Path

import numpy as np
import pytest

import wengert as wg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
try:
    from benchmarks.packages import __main__ as program
    from benchmarks.packages import differences, report
    from benchmarks.packages.cases import Cases
    from benchmarks.packages.verdict import judge
finally:
    sys.path.remove(str(ROOT))

X = [0.5, 0.7]
PLAIN = np.zeros(2)
cases = Cases()


def raising(error):
    """Return a function whose derivative raises an error."""

    def rule(*args):
        raise error

    return wg.primitive(lambda x: 2.0 * x, jvp=rule, vjp=rule)



@cases(X)
def right(x):
    return np.sin(x) * x[0]


@cases(0.5)
def right_at_a_scalar(t):
    return t**3


@cases(X, undefined="counts jump")
def right_to_refuse(x):
    return np.histogram(x)[0].max()


@cases(X, undefined="it should raise")
def wrong_without_error(x):
    return x


@cases(X)
def wrong(x):
    return x * wg.stop_gradient(x)


@cases(0.5)
def warned_bisection(t):
    low, high = 0.0, 2.0
    for _ in range(50):
        x = (low + high) / 2
        low, high = (low, x) if x**3 > t else (x, high)
    return low + 0.5 * t


@cases(X)
def refused_in_place_fill(x):
    PLAIN[0] = x[0]
    return PLAIN * 1.0


@cases(X)
def refused_function_without_a_rule(x):
    return np.setdiff1d(x, 1.0)


@cases(X)
def refused_memory(x):
    return memoryview(x)[0] ** 2


@cases(X)
def error_type_check(x):
    return raising(ValueError("found <class 'wengert.core.operands.var.ArrayVar'>"))(x)


@cases(X)
def error_key(x):
    return raising(KeyError(2))(x)


@cases(X)
def unchecked(x):
    return np.where(x > 0.5, 1.0, 0.0)


@cases(X)
def unchecked_function_that_raises(x):
    raise ZeroDivisionError


REASONS = {
    "refused_in_place_fill": "in-place fill of a plain array",
    "refused_function_without_a_rule": "function without a rule",
    "refused_memory": "TracedValueError",
    "warned_bisection": "RootFindingWarning",
    "error_type_check": "type check",
    "error_key": "KeyError",
    "right_to_refuse": "counts jump",
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("case", cases, ids=lambda case: case.name)
def test_cases_get_their_verdict_and_reason(case, compiled):
    outcome = judge(case, compiled)
    assert outcome.verdict == case.name.partition("_")[0]
    assert outcome.reason == REASONS.get(case.name, outcome.reason)
    if case.name in REASONS and outcome.verdict == "refused":
        assert outcome.where.startswith("tests/test_packages.py:") and outcome.line in Path(__file__).read_text()


def test_compiled_function_that_runs_eagerly_says_so():
    rng = np.random.default_rng(0)
    draw = Cases()
    draw(X)(lambda x: x + 0.0 * rng.random())
    assert judge(draw[0], True).reason == "CompileWarning"


def test_differences_reach_their_error_estimate():
    x = np.array([0.3, 0.8])
    found, error = differences.jacobian(lambda x: np.array([np.exp(x[0]), x[0] * x[1]]), x, 1e-2)
    assert np.all(abs(found - [[np.exp(0.3), 0.0], [0.8, 0.3]]) <= 1e-13 + error) and error.max() < 1e-9


FAKE = '''
import os
from benchmarks.packages.cases import Cases
PACKAGE = "no distribution has this name"
cases = Cases()

@cases(2.0)
def square(x):
    print("packages print")
    return x * x

@cases(2.0)
def crash(x):
    os._exit(3)
'''


def test_crash_and_absent_package_are_reported(tmp_path, monkeypatch):
    (tmp_path / "fake_cases.py").write_text(FAKE)
    (tmp_path / "absent_cases.py").write_text("import a_package_that_is_not_installed")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    found = {name: program.package_results(name, ["eager"], 60.0) for name in ("fake_cases", "absent_cases")}
    verdicts = {name: outcome["verdict"] for name, outcome in found["fake_cases"]["eager"].items()}
    assert verdicts == {"square": "right", "crash": "crash"}
    assert "a_package_that_is_not_installed" in found["absent_cases"]["skipped"]
    text = "\n".join(report.text_table(found, "eager"))
    assert "absent_cases: skipped" in text
    assert "eager: 2 functions of 1 packages: 1 right, 1 crash" in text


class Idle:
    """A process that runs and writes nothing more."""

    def poll(self):
        return None

    def kill(self):
        return None

    def wait(self):
        return None


def test_time_limit_leaves_the_other_functions(monkeypatch):
    def started(module, mode, index):
        lines = queue.Queue()
        lines.put(json.dumps({"cases": ["slow", "fast"], "package": "some", "version": "1.0"}))
        if index == 1:
            lines.put(json.dumps({"verdict": "right"}))
        return Idle(), lines

    monkeypatch.setattr(program, "started", started)
    outcomes = program.results("module", "eager", 0.01)["outcomes"]
    assert outcomes == {"slow": {"verdict": "slow"}, "fast": {"verdict": "right"}}


def test_page_counts_what_was_judged():
    refused = {"verdict": "refused", "reason": "math", "where": "package/file.py:3 f"}
    eager = {"f": refused, "g": {"verdict": "right"}}
    compiled = {"f": refused, "g": {"verdict": "right", "reason": "CompileWarning"}}
    found = {
        "some": {"package": "some", "version": "1.0", "eager": eager, "compiled": compiled},
        "absent": {"skipped": "not installed"},
    }
    page = "\n".join(report.page(found, ["eager", "compiled"]))
    assert "- **eager**: 2 functions of 1 packages: 1 right, 1 refused." in page
    assert "| some 1.0 | 2 | 1 | 1 | 1 |" in page and "| some: f | refused | math | `package/file.py:3` |" in page
