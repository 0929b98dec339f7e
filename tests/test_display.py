"""How objects present themselves: `help`, `dir`, signatures, and notebooks."""

import inspect
import pydoc
import sys

import numpy as np
import pytest

import wengert as wg


def residual(u, k=1.0, *, p=2):
    """Residual of the model."""
    return k * u[1:] ** p - u[:-1]


def energy(u):
    return np.sum(u**2)


def visible(x):
    return [name for name in dir(x) if not name.startswith("_")]


DERIVATIVE = "(u, k=1.0, *, p=2)"
OPERATORS = {
    wg.grad: (["fun"], DERIVATIVE),
    wg.jacobian: (["fun", "plan"], DERIVATIVE),
    wg.hessian: (["fun"], DERIVATIVE),
    wg.derivative: (["fun"], DERIVATIVE),
    wg.vjp: ([], DERIVATIVE),
    wg.linearize: ([], DERIVATIVE),
    wg.vmap: ([], DERIVATIVE),
    wg.jvp: ([], "(u, v, k=1.0, *, p=2)"),
    wg.hvp: ([], "(u, v, k=1.0, *, p=2)"),
    wg.taylor: ([], "(u, v, order, k=1.0, *, p=2)"),
}


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda f: f.__name__)
def test_operators_have_signatures_and_help(operator):
    names, signature = OPERATORS[operator]
    found = operator(residual)
    assert visible(found) == names
    assert str(inspect.signature(found)) == signature
    text = pydoc.render_doc(found, renderer=pydoc.plaintext)
    assert f"{operator.__name__}(residual)" in text
    assert "Residual of the model." in text
    assert "Traceback" not in text


def test_help_on_the_class_does_not_need_a_function():
    cls = type(wg.jacobian(residual))
    assert inspect.getdoc(cls).startswith("Jacobian of a function")
    assert "plan : Plan or None" in pydoc.render_doc(cls, renderer=pydoc.plaintext)


def test_name_and_help_of_a_sparse_derivative():
    J = wg.jacobian(residual, sparse=True)
    assert J.__name__ == "jacobian_residual"
    assert visible(J) == ["colours", "fun", "mode", "pattern", "plan", "values"]
    assert inspect.getdoc(J).startswith("jacobian(residual, sparse=True)\n\nSparse Jacobian or Hessian")


def test_derivative_of_a_builtin_has_no_signature():
    with pytest.raises(ValueError, match="signature"):
        inspect.signature(wg.jvp(max))
    assert str(inspect.signature(wg.jvp(lambda *args: args[0]))) == "(*args)"


def test_compiled_functions_keep_the_signature():
    f = wg.compile(residual)
    assert visible(f) == ["clear", "paths"]
    assert str(inspect.signature(f)) == DERIVATIVE
    assert f.__doc__ == residual.__doc__
    assert visible(wg.compile(wg.jacobian(residual))) == ["clear", "fun", "paths"]


def test_programs_list_only_public_names():
    program = wg.record(energy, np.ones(3))
    assert visible(program) == [
        "explain", "grad", "hessian", "hvp", "jacobian", "jvp", "load", "save", "tiered", "to_cuda", "to_dot", "vjp",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["checkpointing", "cuda", "distributed", "errors", "implicit", "testing", "typing", "viz"]
)
def test_modules_list_only_public_names(name):
    module = getattr(wg, name)
    names = dir(module)
    classes = [each for each in names if isinstance(getattr(module, each), type)]
    assert names == sorted(getattr(module, "__all__", classes))


def test_comparisons_show_their_table():
    assert repr(wg.compare(residual, np.ones(3))).startswith("jacobian(residual): Jacobian of shape (2, 3)\n")


def sparse_jacobian():
    J = wg.jacobian(residual, sparse=True)
    J(np.ones(40))
    return J


SHOWN = {
    "program": lambda: wg.record(lambda x: sum(x[i] ** 2 for i in range(50)), np.ones(50)),
    "program of arrays": lambda: wg.record(energy, np.ones(3)),
    "colouring": lambda: wg.colouring(np.eye(5, dtype=bool)),
    "sparse derivative": sparse_jacobian,
    "plan": lambda: sparse_jacobian().plan,
}


@pytest.mark.parametrize("name", SHOWN)
def test_notebooks_show_a_picture(name):
    found = SHOWN[name]()
    shown = found._repr_html_()
    assert shown.startswith("<pre>")
    assert repr(found).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in shown
    assert '<img alt="' in shown
    assert "data:image/svg+xml;base64," in shown


def test_notebooks_show_text_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    shown = wg.colouring(np.eye(5, dtype=bool))._repr_html_()
    assert shown.startswith("<pre>&lt;column colouring: 1 colour")
    assert "<img" not in shown


def test_sparse_derivative_before_the_first_call():
    assert wg.jacobian(residual, sparse=True)._repr_html_() is None
