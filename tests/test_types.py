"""The stubs describe the functions that exist; `mypy` and `basedpyright` check programs against them (tests/types)."""

import ast
import inspect
from pathlib import Path

import pytest

import wengert as wg
from wengert import api, typing

STUB = ast.parse(Path(api.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
OPTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {}
for node in STUB.body:
    if isinstance(node, ast.FunctionDef):
        FUNCTIONS.setdefault(node.name, []).append(node)


def keys_of(name):
    """Return the keys of a TypedDict of the stub, with those of its bases."""
    node = OPTIONS[name]
    bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in OPTIONS]
    own = {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)}
    return own.union(*map(keys_of, bases))


def parameters_of(node):
    """Return the names of the parameters of a function of the stub, with those of its unpacked TypedDict."""
    args = node.args
    names = {arg.arg for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs]}
    if args.kwarg is not None:
        names |= keys_of(args.kwarg.annotation.slice.id)
    return names


def test_each_function_has_types():
    public = {name for name in wg._HOMES if wg._HOMES[name] == "api"}
    assert public == {*FUNCTIONS, "gradient", "jacrev"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_are_those_of_the_function(name):
    f = getattr(api, name)
    signature = inspect.signature(getattr(f, "func", f)).parameters
    found = set().union(*map(parameters_of, FUNCTIONS[name]))
    fixed = set(getattr(f, "keywords", {}))
    assert found == set(signature) - {"others"} - fixed
    for node in FUNCTIONS[name]:
        for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if default is not None:
                assert ast.literal_eval(default) == signature[arg.arg].default


@pytest.mark.parametrize("name", typing.__all__)
def test_types_have_documentation(name):
    assert inspect.getdoc(getattr(typing, name))


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (wg.grad(abs), typing.Derivative),
        (wg.jacobian(abs), typing.Jacobian),
        (wg.jacobian(abs, sparse=True), typing.SparseDerivative),
        (wg.jacobian(wg.compile(abs), sparse=True), typing.SparseDerivative),
        (wg.compile(wg.jacobian(abs, sparse=True)), typing.SparseDerivative),
        (wg.compile(lambda x: x), typing.Compiled),
        (wg.compile(wg.grad(lambda x: x)), typing.CompiledDerivative),
    ],
)
def test_objects_have_the_attributes_of_their_types(found, kind):
    members = {name for cls in kind.__mro__ for name in vars(cls) if not name.startswith("_")}
    assert members <= set(dir(found))
