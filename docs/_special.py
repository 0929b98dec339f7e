"""The directives ``{special} accuracy`` and ``{special} refused``: tables of measurements for ``scipy.special``.

Exact derivatives come from the tests, in ``tests/data/special.json``; ours are computed when the page is built.
"""

import ast
import json
import re
from pathlib import Path

import numpy as np
from _coverage import argument_names, is_known, rows, table
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

DATA = Path(__file__).parents[1] / "tests" / "data" / "special.json"
_KEY = re.compile(r"(\w+)(?:\[(\d+)\])?(\(.*\))", re.DOTALL)


def function_of(name, part, operands):
    """Return a function of the list operands, stacked, and their positions and values."""
    from wengert.scipy import special

    moving = [i for i, x in enumerate(operands) if isinstance(x, list)]
    n = max(len(operands[i]) for i in moving)

    def f(x):
        now = list(operands)
        for row, i in enumerate(moving):
            now[i] = x[row]
        y = getattr(special, name)(*now)
        return y if part is None else y[int(part)]

    return f, moving, np.array([np.resize(operands[i], n) for i in moving], dtype=float)


def worst(found, exact):
    """Return the largest relative error; for values near zero, relative to a thousandth of the largest."""
    floor = np.maximum(np.abs(exact), 1e-3 * np.abs(exact).max(initial=1e-27))  # mpmath's residue of a zero
    return float(np.max(np.abs(found - exact) / floor))


def errors():
    """Return the largest errors of first and second derivatives and the points, by function and argument."""
    import wengert as wg

    measured = {}
    for key, exact in json.loads(DATA.read_text()).items():
        name, part, operands = _KEY.fullmatch(key).groups()
        f, moving, x = function_of(name, part, ast.literal_eval(operands))

        def total(x, f=f):
            return np.sum(f(x))

        with np.errstate(all="ignore"):
            slope = wg.grad(total)
            first, place = slope(x), name if part is None else f"{name}()[{part}]"
            for row, i in enumerate(moving):
                v = np.zeros_like(x)
                v[row] = 1
                line = measured.setdefault((place, name, i), [0.0, 0.0, []])
                line[0] = max(line[0], worst(first[row], np.array(exact["first"][row])))
                line[2] += x[row].tolist()
                try:
                    second = wg.jvp(slope, x, v)[1][row]
                except wg.errors.UnsupportedFunctionError:
                    line[1] = np.nan
                else:
                    line[1] = max(line[1], worst(second, np.array(exact["second"][row][row])))
    return measured


def shown(error):
    return "none" if np.isnan(error) else "0" if error == 0 else f"{error:.0e}"


def accuracy():
    import scipy.special

    body = []
    for (place, name, i), (first, second, points) in sorted(errors().items()):
        count = getattr(getattr(scipy.special, name), "nin", None)
        argument = "`x`" if count == 1 else f"`x{i + 1}`"
        body.append([f"`{place}`", argument, f"{min(points):.3g} to {max(points):.3g}", shown(first), shown(second)])
    return table(["function", "in", "points", "first derivative", "second derivative"], body)


def parts_of(row):
    """Return the partials of a function, or of the first of its results."""
    from wengert import registry
    from wengert.rules import transcendental

    first = getattr(transcendental, f"{row.name.rpartition('.')[2]}_0", None)
    return registry.rows[first].partials if first is not None else row.partials


def refused():
    body = []
    for row in rows():
        if not row.name.startswith("scipy.special.") or "._" in row.name:
            continue
        for i, partial in enumerate(parts_of(row)):
            if not is_known(partial):
                what = "an integer" if partial is None else partial.operand
                body.append([f"`{row.name}`", f"`{argument_names(row)[i]}`", what])
    return table(["function", "argument", "what it is"], body)


class Special(SphinxDirective):
    """One table of the page."""

    required_arguments = 1

    def run(self):
        container = nodes.container()
        lines = {"accuracy": accuracy, "refused": refused}[self.arguments[0]]()
        self.state.nested_parse(StringList(lines, "the registry"), 0, container)
        return container.children


def setup(app):
    app.add_directive("special", Special)
    return {"parallel_read_safe": True}
