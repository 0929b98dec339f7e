"""Views of a program: IR between passes, kernels, graphs and plots."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from wengert.program.ir.ir import kind_of, operands
from wengert.program.ir.opcodes import Op

import wengert as wg
from wengert.program.ir import verify
from wengert.program.ir.call import Call
from wengert.program.ir.reference import outputs
from wengert.program.passes import vectorise
from wengert.program.passes.pipeline import PASSES, Options

N = 100
x = np.random.default_rng(0).uniform(0.1, 1.0, N)


def squares(x):
    s = 0.0
    for i in range(x.size):
        s += 2.0 * x[i] ** 2
    return s


def scaled(x):
    y = np.zeros(x.size)
    for i in range(x.size):
        y[i] = 3.0 * x[i] + 1.0
    return y


def mixed(x):
    y = np.zeros(11)
    for i in range(11):
        y[i] = x[3 * i % 11] * x[7 * i % 11] + 1.0
    return y


def relax(x):
    u = x.copy()
    for i in range(1, u.size - 1):
        u[i] = 0.5 * (u[i - 1] + u[i + 1])
    return u


def solved(x):
    return np.linalg.solve(np.diag(x), x) * 2.0 if x[0] > 0 else x


# ---------------------------------------------------------------------------------------------- passes

#: a function, and instructions and operations of some stages in closed form
COUNTS = {
    # each round records an element, two constants and three operations; one copy of each constant stays, and 0.0
    squares: {
        "recorded": (6 * N + 2, 3 * N),
        "simplify": (4 * N + 3, 3 * N),
        "vectorise": (8, 3 * N + 1),
    },
    scaled: {"recorded": (5 * N + 4, 2 * N), "simplify": (3 * N + 4, 2 * N), "vectorise": (7, 2 * N)},
    relax: dict.fromkeys(("simplify", "vectorise"), (N - 1 + 2 * (N - 2) + 4, 2 * (N - 2) + N)),
}


@pytest.mark.parametrize("f", [squares, scaled, relax, solved])
def test_every_stage_computes_same_values(f):
    found = wg.viz.passes(f, x)
    rows = [row for stage in ("trace", "value", "run") for row in PASSES if stage in row.stages]
    rows = [row for row in rows if row.applies is None or row.applies(Options())]
    assert [name.partition(" ")[0] for name in found] == ["recorded", *(row.name for row in rows), "vm"]
    for name, stage in found.items():
        verify.check(stage.listing)
        np.testing.assert_allclose(outputs(stage.listing, [x])[0], f(x), rtol=1e-13, err_msg=name)
        counts = COUNTS.get(f, {}).get(name)
        assert counts is None or (len(stage), stage.operations) == counts, name
        kept = [op for op in stage.listing.op.tolist() if op not in (Op.INPUT, Op.CONST, Op.ARRAY, Op.GUARD, Op.VIEW)]
        assert stage.scalars + stage.arrays == len(kept)
    executed = [i for kernel in found["vm"].kernels for i in kernel.instructions]
    assert len(executed) == len(set(executed))  # each instruction belongs to one kernel
    assert all(name in repr(found) for name in found)


def test_stages_of_derivatives_are_listed():
    expected = {"grad": wg.grad(squares, x), "hvp": 4.0 * x, "hessian": 4.0 * np.eye(N)}
    for word, y in expected.items():
        found = wg.viz.passes(squares, x, derivative=word)
        derived = max(i for i, name in enumerate(found) if name.startswith("derived"))
        names = list(found)[derived:]
        assert names[1].startswith("simplify") and len(found[names[1]]) <= len(found[names[0]])
        inputs = [x, x] if word == "hvp" else [x]
        for name in names:
            result = outputs(found[name].listing, inputs)
            np.testing.assert_allclose(result[-1], y, rtol=1e-13, err_msg=f"{word} {name}")
    assert str(wg.viz.passes(wg.compile(wg.grad(squares)), x)) == str(wg.viz.passes(squares, x, derivative="grad"))
    program = wg.record(squares, x, exact=True)
    names = [*wg.viz.passes(program, derivative="grad")]
    assert names == ["recorded", "derived", "dce", "inline_calls", "simplify", "lower", "vm"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wg.viz.passes(squares), "missing the point"),
        (lambda: wg.viz.passes(wg.record(squares, x), x), "has its point already"),
        (lambda: wg.viz.passes(squares, x, derivative="gradient"), "must be one of grad, vjp"),
        (lambda: wg.viz.passes(scaled, x, derivative="grad"), "use jacobian"),
    ],
)
def test_passes_without_example_raises(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_stages_are_printed_as_text():
    found = wg.viz.passes(squares, x)
    assert str(found["vectorise"]).splitlines()[0] == "v0: float64[100] = input 0"
    assert found["recorded"].text(3).splitlines()[3:] == ["... 599 more", "return v601"]
    assert repr(found["recorded"]).count("\n") == 61
    vm = str(found["vm"]).splitlines()
    assert vm[1] == "kernel 1, vector, 100 elements: 3 operations, 8 bytes read, 0 bytes written per element"
    for i in range(len(found["vm"])):  # each value is defined in one line
        assert sum(re.match(rf" *v{i}[ :]", line) is not None for line in vm) == 1


# ---------------------------------------------------------------------------------------------- listings


def test_array_slices_are_printed_as_indexing():
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(200):
        shape = tuple(rng.integers(1, 6, rng.integers(1, 4)).tolist())
        v0 = np.arange(np.prod(shape), dtype=float).reshape(shape)
        index = []
        for n in shape:
            start, stop = sorted(rng.integers(0, n + 1, 2).tolist())
            step = int(rng.choice([-2, -1, 1, 2]))
            part = slice(start, stop, step) if step > 0 else slice(stop, start, step)
            index.append(int(rng.integers(n)) if rng.random() < 0.25 else part)
        change = rng.choice([lambda y: y, np.transpose])
        expected = change(v0[tuple(index)])
        if not expected.shape or not expected.size:
            continue
        program = wg.record(lambda u, index=index, change=change: change(u[tuple(index)]) * 2.0, v0)
        value = [v0]
        ops = program._listing.op.tolist()
        for i, line in enumerate(str(program).splitlines()[: len(ops)]):
            if ops[i] == Op.VIEW:
                value.append(taken(line.partition(" = ")[2], v0, kind_of(program._listing, i)[1]))
                seen.add(re.sub(r"\d+", "1", line.partition(" = ")[2]))
        if len(value) > 1:
            np.testing.assert_array_equal(value[-1], expected)
    assert ".reshape(2, 50)" in str(wg.record(lambda u: u.reshape(2, 50) * 2.0, x))
    assert {"v1[:1]", "v1[::-1]", "v1[1, :1]"} <= seen and any("i + 1*j" in line for line in seen)


def taken(part, v0, shape):
    """Return the part of an array that a line of the listing names."""
    if re.search(r"\b[ijk]\b", part):
        i, j, k = [np.arange(n).reshape(-1, *(1,) * (len(shape) - d - 1)) for d, n in enumerate((*shape, 1, 1)[:3])]
        places = eval(re.search(r"\[(.*)\]", part)[1], {"i": i, "j": j, "k": k})
        return np.broadcast_to(v0.ravel()[places], shape)
    return eval(part, {"v0": v0})


def test_calls_and_constants_are_printed_with_operands():
    program = str(wg.record(lambda u: np.linalg.solve(np.eye(3), np.concatenate([u[:1], u[:1], [2.0]])), x[:3]))
    assert "concatenate([v1, v1, array([2.])])" in program and "solve(" in program
    rolled = str(wg.viz.passes(lambda u: sum(u[i * 37 % N] * 2.0 for i in range(40)), x)["vectorise"])
    assert re.search(r"v\d+: int32\[\d+\] = constant \[\d+, \d+, \.\.\., \d+, \d+\]", rolled)


class Repeated:
    """A loop with the attributes that printer and reports read: a number of iterations, and a body."""

    def __init__(self, steps, body):
        self.steps, self.body = steps, body
        self.loop_bodies = [(steps, body)]

    def __call__(self, x):
        for _ in range(self.steps):
            (x,) = outputs(self.body, [x])
        return x


def test_nested_programs_are_indented_and_counted():
    body = wg.record(lambda u: np.cos(u) * 2.0, x)._listing
    program = wg.record(lambda u: np.linalg.inv(u) + 1.0, np.eye(N))
    code = program._listing
    (call,) = code.calls
    code.calls[0] = Call(Repeated(10, body), call.args, call.kwargs, call.operands)
    shown = str(program).splitlines()
    assert shown[2:4] == ["    10 iterations of:", "        v0: float64[100] = input 0"]
    found = program.explain()
    assert found.operations == 10 * 2 * N + N * N
    loop = next(kernel for kernel in found.kernels if kernel.kind == "loop")
    assert (loop.elements, loop.operations) == (10, 2 * N) and 0.5 > loop.share > 0.1
    assert found.instructions["loop"] == 1
    assert found.loops == ["loop recovered: 10 iterations of 4 instructions"]
    assert f"loop, 10 iterations: {2 * N} operations per iteration" in repr(found)
    assert r"loop[10]: 4 instructions\nfloat64[100, 100]" in program.to_dot()
    stage = wg.viz.passes(program)["vm"]
    assert stage.operations == found.operations and "        10 iterations of:" in str(stage).splitlines()
    scalars, boxes = wg.viz.draw(program, Figure().subplots(1, 2))
    assert scalars.get_title() == "no loops over scalars"
    assert [box.get_text() for box in boxes.texts] == ["input 0 [100, 100]", "loop[10] [100, 100]", "add [100, 100]"]


# ---------------------------------------------------------------------------------------------- explain

EXPLAINED = [
    (squares, x, ["2 isomorphism classes of 100 scalars, 100 additions in reductions", "403 -> 8 instructions",
                  "300 per call", "kernels     2, with share"]),
    (scaled, x, ["2 isomorphism classes of 100 scalars", "304 -> 7 instructions", "100% vector, 100 elements: 2 "]),
    (relax, x, ["196 scalars not vectorised: isomorphism classes smaller than 8",
                "longest dependence chain among them: 196 instructions"]),
    (scaled, x[:9], ["not vectorised: fewer than 32 instructions"]),
    (mixed, x[:11], [" us as array code, "]),
    (solved, x[:4], ["no loops over scalars", "? native call: solve", "2 native calls", "guards      True at"]),
]  # fmt: skip


@pytest.mark.parametrize(("f", "x", "expected"), EXPLAINED)
def test_explain_reports_loops(f, x, expected):
    program = wg.record(f, x)
    found = program.explain()
    for words in expected:
        assert words in repr(found), repr(found)
    assert sum(kernel.share or 0.0 for kernel in found.kernels) == pytest.approx(1.0)
    assert found.vectorised == len(program._vectorised_ir())
    assert len(repr(found).splitlines()) < 25


def test_explain_of_other_programs():
    exact = wg.record(squares, x, exact=True).explain()
    assert exact.loops == ["not vectorised: exact programs keep the order of sums"]
    rows = wg.record(lambda u: np.linalg.inv(np.diag(u))[0] * u, np.arange(1.0, 61.0)).jacobian().explain()
    assert rows.runs == 2 and "2 runs per call" in repr(rows)
    compiled = wg.compile(lambda u: u * x)  # reads x
    compiled(x)
    (table,) = compiled._tables.values()
    ((path, *_),) = table.paths.values()
    assert path.program.explain().captured == [(np.dtype(float), (N,))]
    assert wg.record(squares, x).jvp().explain().captured == []


# ---------------------------------------------------------------------------------------------- graphs


def parsed(source):
    """Return nodes, edges and clusters of a graph; check that strings are closed and edges have two ends."""
    strings = re.compile(r'"(?:[^"\\]|\\.)*"')
    bare = strings.sub("S", source)
    assert '"' not in bare and bare.count("{") == bare.count("}") and bare.count("[") == bare.count("]")
    nodes = dict(re.findall(r"^  (\w+) \[label=(\"(?:[^\"\\]|\\.)*\")", source, re.MULTILINE))
    edges = re.findall(r"^  (\w+) -> (\w+);", source, re.MULTILINE)
    assert {end for edge in edges for end in edge} <= nodes.keys()
    clusters = [part.split() for part in re.findall(r"subgraph .*\n    (.*)\n", source)]
    assert {name.strip(";") for names in clusters for name in names} <= nodes.keys()
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tcanon"], input=source, text=True, check=True, capture_output=True)
    return nodes, edges, clusters


@pytest.mark.parametrize("f", [squares, scaled, solved])
def test_graph_has_a_node_per_value_and_an_edge_per_use(f):
    program = wg.record(f, x)
    code = program._lowered_ir()
    nodes, edges, clusters = parsed(program.to_dot())
    shown = {i for i, op in enumerate(code.op.tolist()) if op != Op.CONST}
    assert {int(name[1:]) for name in nodes if name[0] == "v"} == shown
    uses = {(v, i) for i in shown for v in operands(code, i)}
    assert {(int(a[1:]), int(b[1:])) for a, b in edges if b[0] == "v"} == {(v, i) for v, i in uses if v in shown}
    assert [name for name in nodes if name.startswith("output")] == ["output0"]
    assert len(clusters) == sum(len(kernel.instructions) > 1 for kernel in program.explain().kernels)


def test_names_and_source_locations_are_escaped():
    names: dict = {}
    exec(compile("def f(u):\n    return u * 2.0 if u[0] > 0 else u", 'a"b\\n.py', "exec"), names)
    nodes, _, _ = parsed(wg.record(names["f"], x).to_dot())
    assert any(r"is True?\na\"b\\n.py:2" in label for label in nodes.values())


def test_long_programs_are_drawn_by_kernels():
    program = wg.record(lambda u: np.linalg.inv(np.diag(np.linalg.inv(np.diag(u * 2.0)) @ u)) @ u, x)
    for max_nodes, omitted in ((7, 0), (3, 4)):
        source = program.to_dot(max_nodes)
        nodes, edges, clusters = parsed(source)
        count = len(program.explain().kernels)
        assert not clusters and len([name for name in nodes if name.startswith("kernel")]) == min(max_nodes, count)
        assert f"more than {max_nodes} nodes: one node per kernel" in source
        assert (f"last {omitted} kernels omitted" in source) == (omitted > 0)
        assert any(a.startswith("kernel") and b.startswith("kernel") for a, b in edges)


def test_render_names_missing_package(tmp_path, monkeypatch):
    program = wg.record(squares, x)
    assert wg.viz.render(program, tmp_path / "p.dot").read_text() == program.to_dot()
    if shutil.which("dot"):
        assert "<svg" in wg.viz.render(program, tmp_path / "p.svg").read_text()
    monkeypatch.setenv("PATH", "")
    pytest.importorskip("graphviz")
    with pytest.raises(ImportError, match="apt install graphviz"):
        wg.viz.render(program, tmp_path / "q.svg")
    assert not (tmp_path / "q.svg").exists()
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match=r"graphviz is needed for plots: pip install wengert\[viz\]"):
        wg.viz.render(program, tmp_path / "p.svg")


# ---------------------------------------------------------------------------------------------- plots


def test_isomorphism_plot_has_a_dot_per_scalar_and_a_box_per_class():
    program = wg.record(squares, x)
    scalars, arrays = wg.viz.draw(program, Figure().subplots(1, 2))
    dots = scalars.collections[-1]
    assert len(dots.get_offsets()) == 3 * N
    assert scalars.get_title() == "300 scalars, 2 isomorphism classes"
    shades = [to_hex(shade) for shade in dots.get_facecolors()]
    assert sorted(map(shades.count, set(shades))) == [N, N, N]  # squares, products, sums
    heights = np.unique(dots.get_offsets()[:, 1])
    assert heights.tolist() == [1, 2, 3]  # the sum stays level
    boxes = {label.get_text(): to_hex(label.get_bbox_patch().get_facecolor()) for label in arrays.texts}
    assert boxes.keys() == {"input 0 [100]", "** [100]", "multiply [100]", "sum", "add"}
    assert {boxes["** [100]"], boxes["multiply [100]"], boxes["sum"]} == set(shades)
    assert len(vectorise.classes(program._listing)[1]) == 2


def test_isomorphism_plot_of_recurrence_states_reason():
    scalars, arrays = wg.viz.draw(wg.record(relax, x), Figure().subplots(1, 2))
    assert np.max(scalars.collections[-1].get_offsets()[:, 1]) == 2 * (N - 2)
    assert arrays.get_title() == "not vectorised" and "longest dependence chain" in arrays.texts[0].get_text()


def test_patterns_are_drawn_with_colours():
    J = wg.jacobian(lambda u: u[1:] * u[:-1], sparse=True, mode="forward")
    J(np.ones(9))
    axes = wg.viz.pattern(J)
    assert axes.get_title().startswith("2 colours")
    (points,) = axes.collections
    assert len(points.get_offsets()) == 16
    assert len(np.unique(points.get_facecolors(), axis=0)) == 2
    plain = wg.viz.pattern(J.pattern)
    assert plain.get_title() == "8 x 9, 16 nonzeros"
    assert wg.viz.pattern(np.eye(3, dtype=bool), plain) is plain
