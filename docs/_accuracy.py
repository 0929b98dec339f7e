"""The directive ``{accuracy}``: errors of derivatives of SciPy's functions, measured when it runs.

Its argument is a module of SciPy; without one it makes the summary of all modules.
Exact derivatives come from the tests, in ``tests/scipy_references``.
"""

import functools
import sys
from pathlib import Path

import numpy as np
from _coverage import table
from _special import shown
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


@functools.cache
def references():
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    try:
        import scipy_references
    finally:
        sys.path.pop(0)
    return scipy_references


@functools.cache
def measured(module):
    """Return the errors of the gradient and the Hessian of each row, by function and label."""
    with np.errstate(all="ignore"):
        return {
            name: {label: references().errors(row)[1:] for label, row in rows.items()}
            for name, rows in references().CASES[module].items()
        }


def largest(errors):
    """Return the largest errors of gradients and Hessians, as printed."""
    columns = np.array(list(errors), dtype=float).T
    return [shown(np.nan if np.all(np.isnan(x)) else np.nanmax(x)) for x in columns]


def kinds(labels):
    """Return the labels without the points of distributions, in their order."""
    return ", ".join(dict.fromkeys(label.partition(", ")[0] for label in labels if label))


def lines_of(module):
    """Return the table of a module as Markdown lines."""
    body = []
    for name, found in sorted(measured(module).items()):
        body.append([f"`{name}`", kinds(found), str(len(found)), *largest(found.values())])
    return table(["function", "of", "calls", "error of the gradient", "error of the Hessian"], body)


def summary():
    body = []
    for module in references().CASES:
        found = [errors for rows in measured(module).values() for errors in rows.values()]
        middle = np.nanmedian(np.array(found), axis=0)
        counts = [str(len(measured(module))), str(len(found))]
        body.append([f"`scipy.{module}`", *counts, *map(shown, middle), *largest(found)])
    measures = [f"{size} error of the {what}" for size in ("median", "largest") for what in ("gradient", "Hessian")]
    return table(["module", "functions", "calls", *measures], body)


class Accuracy(SphinxDirective):
    """One table of errors."""

    optional_arguments = 1

    def run(self):
        container = nodes.container()
        lines = lines_of(self.arguments[0]) if self.arguments else summary()
        self.state.nested_parse(StringList(lines, "the tests"), 0, container)
        return container.children


def setup(app):
    app.add_directive("accuracy", Accuracy)
    return {"parallel_read_safe": True}
