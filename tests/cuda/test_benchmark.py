"""The GPU benchmark on a machine without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def lines(*command):
    """Return the output lines of the benchmark and its exit status."""
    run = [sys.executable, "-m", "benchmarks.gpu_cases", *command]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def test_environment_report_has_versions_and_reason_without_gpu():
    (found,), status = lines("environment", "--dry-run")
    assert status == 0
    assert found["versions"]["numpy"] and "why_not" in found


def test_kernels_of_the_cases_agree_with_programs():
    pytest.importorskip("numba", reason="numba is not installed: pip install '.[cuda]'")
    found, status = lines("checks", "--dry-run")
    assert status == 0
    assert len(found) >= 16 and {line["target"] for line in found} == {"cpu"}
    assert all(line["difference"] < (1e-12 if line["dtype"] == "float64" else 2e-3) for line in found)
