"""Check the benchmarks: correct reference derivatives, consistent tables, measurements kept between runs."""

import importlib
import inspect
import json
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest

import wengert as wg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
try:
    from benchmarks import calibrate, colour_counts, integration_references, sparse_plans
    from benchmarks.peers import __main__ as peers
    from benchmarks.peers import cell, table
    from benchmarks.peers.packages import PACKAGES, takes
    from benchmarks.peers.rows import ROWS, problem
finally:
    sys.path.remove(str(ROOT))

#: their reference derivatives alone take a second or more
SLOW = {
    "GaussianProcess-1000-gradient",
    "LogisticRegression-200-hessian",
    "Mixture-64-25-1000-gradient",
    "MLP-100000-hvp",
    "ReactionDiffusion-64-2000-gradient",
    "rosenbrock_sliced-1000000-gradient",
    "ArrowHead-100000-sparse_hessian",
    "Brusselator-256-sparse_jacobian",
    "Chained-100000-sparse_hessian",
}
QUICK = [row for row in ROWS if row.key not in SLOW]
FILES = sorted(path.stem for path in (ROOT / "benchmarks").glob("bench_*.py"))


@pytest.mark.parametrize("row", QUICK, ids=lambda row: row.key)
def test_reference_of_each_workload_is_the_derivative(row):
    name = "vm" if row.is_sparse else "wengert"
    package = PACKAGES[name]()
    found = package.prepare(cell.own_problem(row, name, package))(problem(row).x)
    problem(row).check(found, package.rtol)
    with pytest.raises(AssertionError):
        problem(row).check(1.001 * found, package.rtol)


@pytest.mark.parametrize("name", FILES)
def test_benchmarks_run_with_their_parameters(name):
    """asv passes one argument for each list in `params`, and each parameter has a name."""
    sys.path.insert(0, str(ROOT))
    try:
        module = importlib.import_module(f"benchmarks.{name}")
    finally:
        sys.path.remove(str(ROOT))
    found = 0
    for kind in vars(module).values():
        if not inspect.isclass(kind) or kind.__module__ != module.__name__ or kind.__name__.startswith("_"):
            continue
        params = getattr(kind, "params", [])
        params = params if not params or isinstance(params[0], list) else [params]
        assert len(getattr(kind, "param_names", [])) == len(params)
        for method in ("setup", *(name for name in dir(kind) if name.startswith(("time_", "track_", "peakmem_")))):
            if hasattr(kind, method):
                inspect.signature(getattr(kind, method)).bind(None, *params)
                found += method != "setup"
    assert found


#: the plan of `sparse="auto"`: accumulation, else products, or an ndarray with few or many nonzeros
PICKS = {
    "line, 10": "dense",
    "line, 1000": "direct",
    "blocks of 12 by matmul, 60": "dense",
    "blocks of 12 by matmul, 2400": "direct",
    "two blocks by matmul, 600": "forward",
    "dense by matmul, 300": "dense",
    "chain, Hessian, 50": "dense",
    "blocks by matmul and a chain, Hessian, 600": "mixed",
}


@pytest.mark.parametrize("shape", [s for s in sparse_plans.SHAPES if s.name in PICKS], ids=lambda shape: shape.name)
def test_chosen_plan_is_among_the_timed_plans(shape):
    found, picked = sparse_plans.programs(shape)
    assert picked in found and picked == PICKS[shape.name]
    first, *others = [
        sparse_plans.as_array(sparse_plans.called(made, shape.x), shape.x.size) for made in found.values()
    ]
    for matrix in others:
        assert abs(matrix - first).max() <= 1e-12 * abs(first).max()


def test_colouring_uses_the_best_order():
    pattern = colour_counts.skewed(300, 200, 8, np.random.default_rng(0))
    ones = pattern.toarray().astype(int)
    assert colour_counts.edges(pattern) == np.count_nonzero(np.triu(ones.T @ ones, 1))
    best = min(wg.colouring(pattern, method=method).count for method in colour_counts.SINGLE)
    assert wg.colouring(pattern).count <= best


def test_rows_of_a_table_have_the_same_packages():
    """Sparse and dense rows share only the columns of packages that support both."""
    for name, rows in peers.TABLES.items():
        taken = {tuple(package for package in PACKAGES if takes(package, row)) for row in rows}
        assert len(taken) == 1 and f"<!-- {name} -->" in peers.PAGE.read_text(encoding="utf-8")


def cells(ratio, f=1e-3):
    return [{"cold": 5 * f, "f": f, "warm": ratio * f, "pace": 1.0, "ratio": ratio, "low": ratio, "high": ratio}]


def test_table_states_wins_and_losses():
    rows = ROWS[:2]
    figures = {
        rows[0].key: {"vm": cells(0.5), "hand": cells(0.1), "jax": cells(1.0), "torch": cells(3.0)},
        rows[1].key: {"vm": cells(4.0), "hand": cells(2.0), "jax": cells(2.0), "torch": [{"fails": "over 60 s"}]},
    }
    raised = {rows[1].key: {"vm": cells(2.0)}}
    packages = ["vm", "hand", "torch", "jax"]
    text = table.markdown(rows, figures, raised, packages, ["Somewhere."])
    assert "at most 1.0x in 1 of 2 rows (50%), geometric mean 1x, maximum 2x." in text
    assert f"  Above 1.0x: {table.label(rows[1])} 2x." in text
    assert "fails: `over 60 s`" in text
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("|"):
            assert len({line.count("|") for line in lines}) == 1, lines[0]
    assert text.splitlines()[-1].split("|")[3:5] == [" 1.00 ", " 0.50 "]


def test_measurements_are_kept_between_runs(tmp_path, monkeypatch):
    """Cells that are stored are not measured again, and failed ones are not retried."""
    asked = []

    def run_cell(python, seconds, package, key, **settings):
        asked.append(package)
        return {"fails": "never works"} if package == "jax" else cells(1.0)[0]

    monkeypatch.setattr(peers, "run_cell", run_cell)
    options = type("Options", (), {"repeats": 2, "budget": 9.0, "limit": 1.0})
    pythons = {"vm": "python", "jax": "python"}
    for _ in range(2):
        figures = peers.Figures(tmp_path / "figures.json")
        peers.run_row(ROWS[0], "default", pythons, figures, options)
    assert asked == ["vm", "jax", "vm"]
    kept = json.loads((tmp_path / "figures.json").read_text())["default"][ROWS[0].key]
    assert [len(kept["vm"]), len(kept["jax"])] == [2, 1]
    figures.drop(["jax"], ROWS[:1])
    peers.run_row(ROWS[0], "default", pythons, figures, options)
    assert asked[3:] == ["jax"]


def test_table_cell_is_measured(monkeypatch):
    """Measure one cell in this process, from start to end."""
    monkeypatch.setattr(cell.measure, "pin", lambda: None)
    found = cell.main("wengert", "rosenbrock_loop-10-gradient", "0.1")
    assert found["low"] <= found["ratio"] <= found["high"]
    assert np.isclose(found["warm"] / found["f"], found["ratio"], rtol=0.9)


def test_calibration_names_constants_of_the_cost_model():
    for of_workload, known, in_use in (
        (calibrate.constants, calibrate.WORKLOADS, calibrate.COSTS),
        (calibrate.sparse_constants, calibrate.SPARSE_WORKLOADS, calibrate.SPARSE_COSTS),
    ):
        name, f, x = known[0]
        found = of_workload(f, x, 1, 1e-4)
        assert all(hasattr(in_use, word) for word in found)
        assert "in use" in calibrate.table([(name, found)], in_use)


def test_references_of_integrations_have_twenty_digits():
    """The logistic equation; its value and derivatives in rate, capacity and initial state are known."""

    def rate(t, y, p):
        return np.stack([p[0] * y[0] * (1.0 - y[0] / p[1])])

    p, start = np.array([0.7, 3.0]), np.array([0.2])
    value, jacobian, _ = integration_references.solution(rate, p, start, 2.0, 12)
    with mpmath.workdps(40):

        def closed(r, k, y):
            return k / (1 + (k / y - 1) * mpmath.exp(-2 * r))

        at = [*map(mpmath.mpf, (*p, *start))]
        expected = [closed(*at), *[mpmath.diff(closed, at, n=n) for n in np.eye(3, dtype=int).tolist()]]
        found = [(value[0][0], value[1][0]), *zip(jacobian[0][0], jacobian[1][0])]
        for pair, exact in zip(found, expected):
            assert abs(mpmath.mpf(float(pair[0])) + mpmath.mpf(float(pair[1])) - exact) < 1e-21 * abs(exact)


def test_jets_are_double_doubles_with_tangents():
    x = integration_references.Jet(np.array([2.0, 1.0]).reshape(2, 1, 1), np.zeros((2, 1, 1)))
    with mpmath.workdps(40):
        for f in (lambda x: 1.0 / x, lambda x: x**1.5, lambda x: (3.0 - x**3) / (1.0 + x), lambda x: x / 3.0 - x * x):
            found = f(x)
            for row, exact in enumerate((f(mpmath.mpf(2)), mpmath.diff(f, 2))):
                total = sum(mpmath.mpf(float(part[row, 0, 0])) for part in found.parts)
                assert abs(total - exact) < 1e-28 * abs(exact)
    for found in (x + integration_references.Jet.of(3.0), integration_references.Jet.of(3.0) + x):
        assert found.parts[0].ravel().tolist() == [5.0, 1.0]  # a constant has no tangent
