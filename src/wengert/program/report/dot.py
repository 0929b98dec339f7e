"""Exports a program to Graphviz DOT: data flow edges from each value to its readers."""

from __future__ import annotations

from collections.abc import Iterator

from wengert.program.ir.ir import Listing, kind_of, operands
from wengert.program.ir.opcodes import Op
from wengert.program.ir.printer import bodies, formula, name_of, rows
from wengert.program.report.schedule import schedule
from wengert.transforms.explain import counted

_STYLES = {
    Op.INPUT: 'shape=box, style=filled, fillcolor="#dfe6ee"',
    Op.GUARD: 'shape=diamond, color="#b1401d", fontcolor="#b1401d"',
    Op.CALL: 'shape=box, style=rounded, color="#b1401d"',
    Op.ARRAY: 'shape=note, color="#5b6672"',
    Op.VIEW: 'shape=plain, fontcolor="#5b6672"',
    Op.LOAD: 'shape=plain, fontcolor="#5b6672"',
}
_OUTPUT = 'shape=box, style=filled, fillcolor="#f3ddd4"'
_HEAD = """digraph {name} {{
  label={note};
  node [fontname="sans-serif", fontsize=11, shape=ellipse, color="#22262b"];
  edge [color="#5b6672", arrowsize=0.6];
  fontname="sans-serif"; fontsize=11; color="#5b6672"; fontcolor="#5b6672";"""


def to_dot(name: str, code: Listing, exact: bool, max_nodes: int) -> str:
    """Return the data flow graph of a lowered program, clustered by VM kernel; if too large, a node per kernel."""
    kernels = schedule(code, exact).kernels
    table = rows(code)
    shown = [i for i, (op, *_) in enumerate(table) if op != Op.CONST]
    note = f"{name}: {counted(len(code), 'instruction')} in {counted(len(kernels), 'kernel')}"
    if len(shown) <= max_nodes:
        body = _instructions(code, table, shown, kernels)
    else:
        note += f", more than {max_nodes} nodes: one node per kernel"
        if len(kernels) > max_nodes:
            note += f", last {len(kernels) - max_nodes} kernels omitted"
        body = _kernels(code, table, kernels[:max_nodes])
    return "\n".join([_HEAD.format(name=quoted(name), note=quoted(note)), *body, "}"])


def quoted(text: str) -> str:
    """Quote text as a DOT string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _instructions(code, table, shown, kernels) -> Iterator[str]:
    ops = [op for op, *_ in table]
    for number, kernel in enumerate(kernels):
        if len(kernel.instructions) > 1:
            yield f"  subgraph cluster_{number} {{ label={quoted(str(kernel))}; style=rounded;"
            yield "    " + " ".join(f"v{i};" for i in kernel.instructions if ops[i] != Op.CONST)
            yield "  }"
    for i in shown:
        style = _STYLES.get(ops[i], "")
        yield f"  v{i} [label={quoted(_label(code, table, i))}{', ' if style else ''}{style}];"
        for v in operands(code, i):
            if ops[v] != Op.CONST:
                yield f"  v{v} -> v{i};"
    yield from _outputs(code, table, {v: f"v{v}" for v in shown})


def _label(code, table, i):
    """Return an instruction's operation, its constant operands, and the type of an array result."""
    op, a, b, _, _ = table[i]
    dtype, shape, _ = kind_of(code, i)
    text = name_of(op)
    if op == Op.GUARD:
        expected, place = code.guards[b]
        return f"is {expected}?\n{place}"
    if op == Op.INPUT:
        text = formula(code, i, table[i])
    elif op in (Op.LOAD, Op.VIEW):
        text = formula(code, i, table[i]).removeprefix(f"v{a}") or "view"
    elif op == Op.CALL:
        loops = [f"loop[{times}]: {counted(len(body), 'instruction')}" for times, body in bodies(code.calls[a])]
        text = "\n".join(loops) or code.calls[a].name
    elif op != Op.PACK:
        given = [table[v] for v in operands(code, i)]
        if any(row[0] == Op.CONST for row in given):
            shown = [repr(code.constants[row[1]]) if row[0] == Op.CONST else "·" for row in given]
            text += f"({', '.join(shown)})"
    return f"{text}\n{dtype}{list(shape)}" if shape else text


def _outputs(code, table, place) -> Iterator[str]:
    for number, v in enumerate(code.outputs):
        op, a, *_ = table[v]
        text = f" = {code.constants[a]!r}" if op == Op.CONST else ""
        yield f"  output{number} [label={quoted(f'output {number}{text}')}, {_OUTPUT}];"
        if v in place:
            yield f"  {place[v]} -> output{number};"


def _kernels(code, table, kernels) -> Iterator[str]:
    """Yield nodes for kernels and inputs; a view belongs to the node of its array."""
    place = {i: f"kernel{number}" for number, kernel in enumerate(kernels) for i in kernel.instructions}
    for i, (op, a, *_) in enumerate(table):
        if op == Op.INPUT:
            place[i] = f"v{i}"
            yield f"  v{i} [label={quoted(_label(code, table, i))}, {_STYLES[op]}];"
        elif op == Op.VIEW and a in place:
            place[i] = place[a]
    for number, kernel in enumerate(kernels):
        given = [place[v] for i in kernel.instructions for v in operands(code, i) if v in place]
        guards = sum(table[i][0] == Op.GUARD for i in kernel.instructions)
        label = f"{kernel}\n{counted(guards, 'guard')}" if guards else str(kernel)
        yield f"  kernel{number} [label={quoted(label)}, shape=box, style=rounded];"
        for other in dict.fromkeys(given):
            if other != f"kernel{number}":
                yield f"  {other} -> kernel{number};"
    yield from _outputs(code, table, place)
