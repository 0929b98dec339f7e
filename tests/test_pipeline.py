"""The pass table: every pass preserves values and derivatives, can be disabled, verified, observed and bisected."""

from __future__ import annotations

import functools
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from wengert.core.tape.tape import kernel_rows
from wengert.program.ir.ir import Listing, columns_named, kind_of
from wengert.program.ir.opcodes import Op

import wengert as wg
from fuzz import programs as random_programs
from helpers import assert_same_bits
from scenarios import TABLE
from wengert.program.ir import verify
from wengert.program.ir.verify import MalformedProgram
from wengert.program.passes import pipeline
from wengert.testing import bisect_passes

RNG = np.random.default_rng(0)


# ---- programs that every pass changes


def squares(x):
    s = 0.0
    for i in range(x.size):
        s += 2.0 * x[i] ** 2
    return s


def smoothed(x):
    for _ in range(3):
        y = x.copy()
        y[1:-1] = x[1:-1] + 0.1 * (x[2:] - 2 * x[1:-1] + x[:-2]) * x[1:-1]
        x = y
    return x


def energy(x):
    return np.sum(smoothed(x) ** 2)


def forward_substitution(x):
    y = np.zeros(12)
    for i in range(12):
        y[i] = (x[i] - A[i, :i] @ y[:i]) / A[i, i]
    return y


def normalised(x):
    p = x[:3].copy()
    for _ in range(4):
        e = np.exp(p - np.max(p))
        p = e / np.sum(e) + p * x[0]
    return p


def biased(b):
    return np.tanh((X + b[:5]) @ A[:5]) * np.sum(b)


def long_time(x):
    u = np.outer(x, np.ones(100))
    for _ in range(30):
        u = u + 0.01 * np.sin(u) * np.roll(u, 1)
    return np.sum(u)


def weights(x):
    return np.linalg.solve(np.diag(x) + 1.0, x) * np.sum(np.cumsum(x))


def shape_parameters(x):
    return scipy.special.gammainc(x[:2] + 1.0, x[2:]) * scipy.special.zeta(x[:2] + 2.0, x[2:])


def two_dead_values(x):
    y = x * 3.0 + 0.0
    np.sum(y * y)
    return x * 3.0 + y * 1.0


A = RNG.random((12, 12)) + 12 * np.eye(12)
X = RNG.random((30, 5))
def rows_of_products(x):
    X = x.reshape(12, 120).T
    c = np.zeros((12, 12))
    for i in range(12):
        c[i:, i] = c[i, i:] = X[:, i] @ X[:, i:]
    return c


POINTS = {
    squares: RNG.random(50),
    smoothed: RNG.random(40),
    energy: RNG.random(3000),
    forward_substitution: RNG.random(12),
    normalised: RNG.random(5),
    biased: RNG.random(70),
    long_time: RNG.random(200),
    weights: RNG.random(6),
    two_dead_values: RNG.random(4),
    rows_of_products: RNG.random(1440),
    shape_parameters: RNG.random(4),
}
CASES = {f.__name__: (f, x, ()) for f, x in POINTS.items()}
CASES |= {s.name: (s.f, s.x, s.args) for s in TABLE if not s.containers and s.dtype == np.float64}
for _number in range(20):
    _drawn = random_programs.draw(25, _number)
    if _drawn.x.dtype == np.float64 and not _drawn.is_complex:
        CASES[f"random program {_number}"] = _drawn.f, _drawn.x, ()


def ways(f, x):
    """Return the function and its derivatives by name; the results are small enough to compare quickly."""
    if np.size(x) > 60:
        return {"value": f, "grad": wg.grad(lambda x, *args: np.sum(np.sin(f(x, *args))))}
    found = {"value": f, "jacobian": wg.jacobian(f)}
    if np.size(x) <= 6:
        found["hessian"] = wg.hessian(lambda x, *args: np.sum(np.square(f(x, *args))))
    return found


#: methods of computing a Jacobian that do not rewrite IR
_JACOBIANS = {"unroll", "accumulate"}


@functools.cache
def compiled(case, word, disable="", exact=False):
    """Return the result of a case's program and the passes that changed it; None if there is no program."""
    f, x, args = CASES[case]
    changed, last = set(), {}

    def see(run, name, code):
        if name and last[run] is not code:
            changed.update(row.name for row in pipeline.PASSES if row.name == name)
            changed.update(part for row in pipeline.PASSES if row.name == name for part in row.parts)
        last[run] = code

    with np.errstate(all="ignore"):
        try:
            with pipeline.observed(see):
                program = wg.record(ways(f, x)[word], x, args=args, exact=exact, disable=disable or ())
                return program(x, *args), changed | (_JACOBIANS if word != "value" else set())
        except (TypeError, ValueError) as error:
            if disable:
                raise
            return None, type(error)


EXACT = [name for row in pipeline.PASSES if row.exact and row.is_optional for name in (row.name, *row.parts)]
EXACT = [*dict.fromkeys(EXACT)]


def with_effect(name, exact=False):
    """Return the cases that a pass changes, with the results of their programs."""
    for case, (f, x, _) in CASES.items():
        for word in ways(f, x):
            y, changed = compiled(case, word, exact=exact)
            if y is not None and name in changed:
                yield case, word, y


@pytest.mark.parametrize("name", pipeline.names())
def test_disabling_a_pass_keeps_values_and_derivatives(name):
    count = 0
    for case, word, y in with_effect(name):
        found, _ = compiled(case, word, name)
        scale = np.max(np.abs(y), where=np.isfinite(y), initial=1.0)
        np.testing.assert_allclose(found, y, rtol=1e-9, atol=1e-12 * scale, err_msg=f"{word} of {case}")
        count += 1
    assert count, "no case has this pass: add one"


@pytest.mark.parametrize("name", EXACT)
def test_disabling_a_pass_keeps_bits_of_exact_programs(name):
    for case, word, y in with_effect(name, exact=True):
        found = compiled(case, word, name, exact=True)[0]
        if word == "hessian":  # made symmetric by other means
            np.testing.assert_allclose(found, y, rtol=1e-9, atol=1e-12 * np.max(np.abs(y)))
        else:
            assert_same_bits(np.asarray(found), np.asarray(y))


def test_exact_programs_run_only_exact_passes():
    seen = []
    with pipeline.observed(lambda run, name, code: seen.append((run.stage, name))):
        wg.record(energy, POINTS[energy], exact=True).grad()._lowered_ir()
    rows = {(stage, row.name) for row in pipeline.PASSES if row.exact for stage in row.stages}
    assert {(stage, name) for stage, name in seen if name} <= rows


# ---- the table


@pytest.mark.parametrize("row", pipeline.PASSES, ids=lambda row: f"{row.name} of {row.stages[0]}")
def test_pass_table_rows_are_complete(row):
    assert set(row.stages) <= set(pipeline.STAGES)
    assert row.description and any(char.isdigit() for char in row.reference), "cite the paper with its year"
    assert row.name in pipeline.names() or not row.is_optional


def test_passes_do_not_import_the_vm():
    folder = Path(pipeline.__file__).parent
    for path in folder.iterdir():
        if path.suffix in (".py", ".pyx", ".pxi"):
            text = path.read_text(encoding="utf-8")
            lines = [line for line in text.splitlines() if "import " in line and "program.vm" in line]
            assert not lines, path.name


# ---- disabling passes


def test_disable_option_reaches_derivatives_methods_and_pickles(monkeypatch):
    x = POINTS[squares]
    f = wg.compile(squares, disable="vectorise")
    assert repr(f) == "compile(squares, disable=('vectorise',))"
    monkeypatch.setattr(pipeline.vectorise, "vectorise_scalars", lambda code: pytest.fail("vectorised"))
    for g in (f, wg.grad(f), wg.compile(wg.grad(squares), disable=["vectorise"])):
        g(x)
    program = wg.record(squares, x, disable=["vectorise"])
    for made in (program, program.grad(), program.hessian(), program.jvp(), pickle.loads(pickle.dumps(program))):
        assert made._disabled == {"vectorise"} and repr(made).endswith("disabled: vectorise>")
        assert "disabled: vectorise" in str(made.explain())
        made._lowered_ir()


def test_environment_variable_disables_passes(monkeypatch):
    monkeypatch.setenv("WENGERT_DISABLE", "scalarise, vectorise")
    x = POINTS[squares]
    assert wg.record(squares, x)._disabled == {"scalarise", "vectorise"}
    assert wg.record(squares, x, disable="batching")._disabled == {"scalarise", "vectorise", "batching"}
    f = wg.compile(squares)
    assert f(x) == pytest.approx(squares(x), rel=1e-14)
    assert repr(f) == "compile(squares)"
    monkeypatch.setenv("WENGERT_DISABLE", "vectorize")
    with pytest.raises(ValueError, match=r"WENGERT_DISABLE=vectorize: no pass 'vectorize' can .* from simplify, "):
        wg.record(squares, x)


def test_unknown_pass_name_raises_and_lists_passes():
    for make in (wg.compile, lambda f, disable: wg.record(f, np.ones(3), disable=disable)):
        with pytest.raises(ValueError, match=r"no pass 'roll' can be disabled; choose from .*vectorise"):
            make(squares, disable="roll")
    with pytest.raises(ValueError, match="no pass 'lower' can"):  # the VM requires it
        wg.compile(squares, disable="lower")


def test_sparse_derivatives_use_colouring_if_accumulation_is_disabled():
    x = POINTS[smoothed]
    J = wg.jacobian(wg.compile(smoothed, disable="accumulate"), sparse=True)
    np.testing.assert_allclose(J(x).toarray(), wg.jacobian(smoothed)(x), rtol=1e-12, atol=1e-14)
    assert J.plan.mode != "direct" and "accumulate" in J.plan.reason
    assert J.fun.disable == ("accumulate",)


def test_disabled_batching_runs_directions_one_by_one():
    x = RNG.random((4, 4))
    f = wg.record(np.linalg.inv, x, disable=("batching", "unroll", "accumulate"))
    assert f.jacobian()._runs_per_call == 16
    np.testing.assert_allclose(f.jacobian()(x), wg.jacobian(np.linalg.inv)(x), rtol=1e-12)


# ---- the verifier between passes


def planted(monkeypatch, name, change, stage=None):
    """Replace the output of a pass by a changed program."""

    def wrong(row):
        def function(code, run):
            return change(copied(row.function(code, run)))

        return row._replace(function=function)

    rows = [
        wrong(row) if row.name == name and row.function and stage in (None, *row.stages) else row
        for row in pipeline.PASSES
    ]
    monkeypatch.setattr(pipeline, "PASSES", tuple(rows))


def copied(code):
    """Return a deep copy of the code."""
    made, of = code.successor(), np.full(len(code), -1, dtype=np.int32)
    made.take(code, np.arange(len(code), dtype=np.int32), of)
    made.inputs, made.outputs = of[code.inputs].tolist(), of[code.outputs].tolist()
    return made


def malformed(code):
    code.outputs = [len(code) + 7]
    return code


def scaled(code):
    """Return the code with another last output."""
    v = code.outputs[-1]
    dtype, shape, _ = kind_of(code, v)
    code.outputs = [*code.outputs[:-1], code.add(ADD, (dtype, shape, None), v, code.constant(1.0))]
    return code


ADD = next(opcode for name, opcode, *_ in kernel_rows() if name == "add")


@pytest.mark.parametrize("name", ["simplify", "scalarise", "vectorise", "stencil_fusion", "lower"])
def test_verifier_names_the_pass_that_broke_the_program(name, monkeypatch):
    monkeypatch.setattr(pipeline, "VERIFY", True)
    planted(monkeypatch, name, malformed)
    with pytest.raises(MalformedProgram, match=f"pass '{name}' of stage '.*' returned a malformed program: its"):
        wg.record(energy, POINTS[energy]).grad()._lowered_ir()


def test_verifier_checks_each_stage_before_its_passes(monkeypatch):
    monkeypatch.setattr(pipeline, "VERIFY", True)
    code = malformed(copied(wg.record(squares, POINTS[squares])._listing))
    with pytest.raises(MalformedProgram, match="stage 'run' begins with a malformed program"):
        pipeline.run("run", code)


# ---- bisection


BLAMED = {
    "simplify": squares,
    "expand_dots": forward_substitution,
    "scalarise": normalised,
    "vectorise": squares,
    "loop_recovery": long_time,
    "reassociate": squares,
    "stencil_fusion": energy,
}


@pytest.mark.parametrize("name", BLAMED)
def test_bisection_names_the_wrong_pass(name, monkeypatch):
    f = BLAMED[name]
    x = POINTS[f]
    derivative = wg.grad(lambda x: np.sum(f(x)))
    assert bisect_passes(f, x).message == "correct with all passes enabled"
    planted(monkeypatch, name, scaled)
    for wrong in (f, derivative):
        found = bisect_passes(wrong, x)
        assert found.culprits == [name], found
        assert found.error > 1e-9 >= found.errors[name]
        assert f"correct if {name} is disabled" in str(found)


def test_bisection_names_pass_that_raises_or_emits_malformed_ir(monkeypatch):
    planted(monkeypatch, "vectorise", malformed)
    found = bisect_passes(squares, POINTS[squares])
    assert found.culprits == ["vectorise"] and found.error == np.inf


def test_bisection_finds_passes_wrong_only_in_combination(monkeypatch):
    planted(monkeypatch, "scalarise", scaled)
    with monkeypatch.context() as patch:
        planted(patch, "vectorise", scaled)
        found = bisect_passes(squares, POINTS[squares])
    assert {*found.culprits} == {"scalarise", "vectorise"}
    assert found.message == "correct if vectorise and scalarise are all disabled"


def test_bisection_reports_if_no_pass_is_wrong(monkeypatch):
    planted(monkeypatch, "lower", scaled)
    found = bisect_passes(squares, POINTS[squares])
    assert found.culprits == [] and "check the recording" in found.message


def test_bisection_accepts_sparse_derivatives():
    assert bisect_passes(wg.jacobian(smoothed, sparse=True), POINTS[smoothed]).error < 1e-12


def test_bisection_compares_at_another_point():
    def f(x):
        return x * 2.0 if x[0] > 0 else x

    x = np.ones(3)
    assert bisect_passes(f, x, at=2.0 * x).error == 0.0
    found = bisect_passes(f, x, at=-x)  # a guard fails
    assert found.error == np.inf and found.culprits == []


# ---- explain, viz and observers


def test_explain_and_viz_show_all_stages():
    x = POINTS[energy]
    known = {row.name for row in pipeline.PASSES}
    summary = wg.record(energy, x).grad().explain()
    assert {name for _, name, _, _ in summary.passes} <= known
    assert {stage for stage, *_ in summary.passes} <= {*pipeline.STAGES}
    seen = wg.viz.passes(energy, x, derivative="grad")
    assert {name.partition(" ")[0] for name in seen} <= known | {"recorded", "derived", "vm"}
    counts = [(len(stage), name.partition(" ")[0]) for name, stage in seen.items()]
    for _, name, _, after in summary.passes:
        assert (after, name) in counts


def test_observer_sees_ir_until_its_context_ends():
    seen = []
    with pipeline.observed(lambda run, name, code: seen.append((run.stage, name, type(code)))):
        wg.record(squares, POINTS[squares])
    assert seen == [("trace", "", Listing), ("trace", "simplify", Listing), ("trace", "join_products", Listing)]
    wg.record(squares, POINTS[squares])
    assert len(seen) == 3


# ---- the specification of the IR


def specified():
    """Return the columns of the documented instruction table by opcode."""
    page = Path(__file__).resolve().parents[1] / "docs" / "reference" / "ir.md"
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.read_text().splitlines() if "|" in line]
    return {row[0]: row[1:4] for row in cells if hasattr(Op, row[0])}


def test_specification_has_every_opcode():
    assert {*specified()} == {op.name for op in Op if Op.INPUT <= op < Op.OPS}


@pytest.mark.parametrize("name", specified())
def test_opcode_columns_match_specification(name):
    op, columns = Op[name], specified()[name]
    assert columns_named(op) == sum(1 << k for k, column in enumerate(columns) if column.startswith("value"))
    for k, column in enumerate(columns):
        code = Listing()
        scalar = np.dtype(float), (), None
        v = code.inputs = [code.add(Op.INPUT, scalar, 0)]
        given = [v[0] if column.startswith("value") else 0 if column else -1 for column in columns]
        message = "outside the table of" if column.startswith("index") else "."
        message = {"value": "lacks a required operand", "": "has an operand in an unused column"}.get(
            column, message
        )
        given[k] = -1 if column == "value" else 4711 if column else 0
        code.outputs = [code.add(op, scalar, *given)]
        with pytest.raises(MalformedProgram, match=message):
            verify.check(code)
