"""The directive ``{accuracy}``: errors of derivatives of functions of a module of SciPy, measured when it runs.

Exact derivatives come from the tests, in ``tests/scipy_references.py``.
"""

import sys
from pathlib import Path

from _coverage import table
from _special import shown
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


def lines_of(module):
    """Return the table of a module as Markdown lines."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    try:
        import scipy_references as references
    finally:
        sys.path.pop(0)
    body = []
    for name, (_, _, point) in references.CASES[module].items():
        _, first, second = references.errors(module, name)
        body.append([f"`{name}`", ", ".join(map(str, point)), shown(first), shown(second)])
    return table(["function", "point", "error of the gradient", "error of the Hessian"], body)


class Accuracy(SphinxDirective):
    """One table of errors."""

    required_arguments = 1

    def run(self):
        container = nodes.container()
        self.state.nested_parse(StringList(lines_of(self.arguments[0]), "the tests"), 0, container)
        return container.children


def setup(app):
    app.add_directive("accuracy", Accuracy)
    return {"parallel_read_safe": True}
