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


def lines_of(name):
    """Return the table of a module, or of ``distributions``, as Markdown lines."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    try:
        import distribution_references as distributions
        import scipy_references as references
    finally:
        sys.path.pop(0)
    if name == "distributions":
        return of_distributions(distributions)
    body = []
    for function, (_, _, point) in references.CASES[name].items():
        _, first, second = references.errors(name, function)
        body.append([f"`{function}`", ", ".join(map(str, point)), shown(first), shown(second)])
    return table(["function", "point", "error of the gradient", "error of the Hessian"], body)


def of_distributions(references):
    """Return the largest errors of the methods of each distribution."""
    body = []
    for names, errors in (
        (references.CONTINUOUS, references.continuous_errors),
        (references.DISCRETE, references.discrete_errors),
    ):
        for name in names:
            found = errors(name)
            _, first, second = map(max, zip(*found.values(), strict=True))
            body.append([f"`{name}`", ", ".join(f"`{method}`" for method in found), shown(first), shown(second)])
    return table(["distribution", "methods", "error of gradients", "error of Hessians"], sorted(body))


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
