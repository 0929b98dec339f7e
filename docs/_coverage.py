"""The directive ``{coverage}``: a table generated from the registry, so that it always matches the code.

Its argument is a kind of rule, ``ufunc-methods``, ``standard-library``, or a module of SciPy.
"""

import importlib
import inspect

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


def rows():
    """Return every public rule of NumPy and ``scipy.special`` by name."""
    import numpy.fft  # noqa: F401  (rules of these modules are declared once they have been imported)
    import scipy.special  # noqa: F401

    import wengert.numpy  # noqa: F401  (declares the rules)
    from wengert import registry

    registry.declare_loaded()
    rows = [row for row in registry.rows.values() if row.name.startswith(("numpy.", "scipy.special."))]
    by_name = {row.name: row for row in rows}
    return [by_name[name] for name in sorted(by_name)]


def kernels():
    """Return the names of the functions that have a row in ``kernels.h``."""
    from wengert.core.tape.tape import kernel_rows

    names = [name for name, *_ in kernel_rows() if name]
    return {name if "." in name else f"numpy.{name}" for name in names}


def argument_names(row):
    """Return the names of the positional arguments of a function."""
    count = getattr(row.fun, "nin", None)
    if count is not None:
        return ["x"] if count == 1 else [f"x{i + 1}" for i in range(count)]
    try:
        parameters = inspect.signature(row.fun).parameters.values()
    except (TypeError, ValueError):
        return []
    names = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names.append("*" + parameter.name)
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    return names


def is_known(partial):
    """Return whether there is a partial, and not only a message that none is known."""
    return partial is not None and not getattr(partial, "__qualname__", "").startswith("unknown.")


def differentiable(row):
    """Return the operands with a known derivative, as printed in the table."""
    names = argument_names(row)
    if row.kind == "composed" or row.variadic is not None:
        return "all"
    if row.kind == "elementwise":
        positions = [i for i, partial in enumerate(row.partials) if is_known(partial)]
    elif row.kind in ("view", "rearrangement"):
        positions = [0]
    else:
        positions = sorted(row.vjps)
    found = [names[i] if i < len(names) else f"argument {i}" for i in positions]
    return ", ".join(f"`{name}`" for name in found)


def table(header, body):
    """Return the lines of a Markdown table."""
    cells = [header, ["---"] * len(header), *body]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in cells]


def of_standard_library():
    """Return the table of functions of Python's standard library."""
    from wengert import standard_library as library

    body = []
    for module in library.DIFFERENTIABLE:
        body += [[f"`{module}.{name}`", "yes"] for name in sorted(library.DIFFERENTIABLE[module])]
        body += [[f"`{module}.{name}`", "0, the result is plain"] for name in sorted(library.CONSTANT[module])]
        body += [[f"`{module}.{name}`", f"no: {reason}"] for name, reason in library.REFUSED[module].items()]
    return table(["function", "derivative"], body)


def of_scipy(module):
    """Return the table of the public functions and classes of a module of SciPy."""
    original, ours = importlib.import_module(module), importlib.import_module(f"wengert.{module}")
    from wengert.rules.scipy import functions
    from wengert.scipy import namespace

    known, body = functions.known(original), []
    for name in sorted(namespace.public_names(original)):
        value = getattr(original, name)
        if callable(value) and not (isinstance(value, type) and issubclass(value, BaseException)):
            body.append([f"`{name}`", derivative_of(known.get(name), value, getattr(ours, name))])
    return table(["name", "derivative"], body)


def derivative_of(proxy, original, replacement):
    """Return how a function or class of SciPy is differentiated, as printed in its table."""
    from wengert import registry
    from wengert.core.dispatch.refusing import Iterative

    row = registry.rows.get(proxy)
    if row is not None:
        return {"refuse": f"no: {row.reason}", "constant": "0, the result is plain"}.get(row.kind, "yes")
    if type(replacement) is Iterative:
        return "no: it iterates to a tolerance"
    remedy = getattr(replacement, "_wengert_remedy", None)
    return f"no: {remedy}" if remedy else "none: takes plain values" if replacement is original else "yes"


def lines_of(kind):
    """Return one table as Markdown lines."""
    from wengert import registry

    if kind.startswith("scipy."):
        return of_scipy(kind)
    if kind == "standard-library":
        return of_standard_library()
    if kind == "ufunc-methods":
        body = []
        for (ufunc, method), target in registry.ufunc_methods.items():
            name = registry.dotted_name(target)
            does = f"`{name}`" if not name.startswith("wengert.") else "a rule of its own"
            body.append([f"`numpy.{ufunc.__name__}.{method}`", does])
        return table(["method", "differentiated as"], sorted(body))
    chosen = [row for row in rows() if row.kind == kind]
    if not chosen:
        raise ValueError(f"the registry has no rows of kind {kind!r}")
    if kind == "refuse":
        return table(["function", "why, and what to write instead"], [[f"`{row.name}`", row.reason] for row in chosen])
    if kind == "constant":
        return table(["function"], [[f"`{row.name}`"] for row in chosen])
    header, body = ["function", "differentiable in"], [[f"`{row.name}`", differentiable(row)] for row in chosen]
    if kind == "elementwise":
        with_kernel = kernels()
        header.append("by")
        for line, row in zip(body, chosen):
            line.append("C kernel and rule" if row.name in with_kernel else "rule")
    return table(header, body)


class Coverage(SphinxDirective):
    """One table of the coverage page."""

    required_arguments = 1

    def run(self):
        container = nodes.container()
        self.state.nested_parse(StringList(lines_of(self.arguments[0]), "the registry"), 0, container)
        return container.children


def setup(app):
    app.add_directive("coverage", Coverage)
    return {"parallel_read_safe": True}
