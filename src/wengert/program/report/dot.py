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


def to_dot(name: str, code: Listing, exact: bool, most: int) -> str:
    """Return the data flow graph of a program as run, instructions grouped by VM instruction; if large, groups only."""
    steps = schedule(code, exact).steps
    table = rows(code)
    shown = [i for i, (op, *_) in enumerate(table) if op != Op.CONST]
    note = f"{name}: {counted(len(code), 'instruction')} in {counted(len(steps), 'step')}"
    if len(shown) <= most:
        body = _instructions(code, table, shown, steps)
    else:
        note += f", more than {most}: each box is a step"
        if len(steps) > most:
            note += f", and the last {len(steps) - most} are left out"
        body = _steps(code, table, steps[:most])
    return "\n".join([_HEAD.format(name=quoted(name), note=quoted(note)), *body, "}"])


def quoted(text: str) -> str:
    """Quote text as a DOT string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _instructions(code, table, shown, steps) -> Iterator[str]:
    ops = [op for op, *_ in table]
    for number, step in enumerate(steps):
        if len(step.instructions) > 1:
            yield f"  subgraph cluster_{number} {{ label={quoted(str(step))}; style=rounded;"
            yield "    " + " ".join(f"v{i};" for i in step.instructions if ops[i] != Op.CONST)
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
        text = formula(code, i, table[i]).removeprefix(f"v{a}") or "same"
    elif op == Op.CALL:
        loops = [f"{times} times {counted(len(body), 'instruction')}" for times, body in bodies(code.calls[a])]
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


def _steps(code, table, steps) -> Iterator[str]:
    """Yield nodes for VM instructions and inputs; views are drawn as part of their array."""
    place = {i: f"step{number}" for number, step in enumerate(steps) for i in step.instructions}
    for i, (op, a, *_) in enumerate(table):
        if op == Op.INPUT:
            place[i] = f"v{i}"
            yield f"  v{i} [label={quoted(_label(code, table, i))}, {_STYLES[op]}];"
        elif op == Op.VIEW and a in place:
            place[i] = place[a]
    for number, step in enumerate(steps):
        given = [place[v] for i in step.instructions for v in operands(code, i) if v in place]
        guards = sum(table[i][0] == Op.GUARD for i in step.instructions)
        label = f"{step}\n{counted(guards, 'guard')}" if guards else str(step)
        yield f"  step{number} [label={quoted(label)}, shape=box, style=rounded];"
        for other in dict.fromkeys(given):
            if other != f"step{number}":
                yield f"  {other} -> step{number};"
    yield from _outputs(code, table, place)
