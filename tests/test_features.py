"""Feature detection for the installed Python and NumPy: bytecode decoding, classes defined in Python."""

from __future__ import annotations

import collections
import dis
import functools
import inspect
import itertools
import re
import types

import numpy as np
import pytest

import wengert as wg
from wengert import features
from wengert.core.rebind import follow, rename
from wengert.errors import TracedValueError


@pytest.fixture
def fresh():
    """Run detection again, and discard the result afterwards."""
    features.knows_bytecode.cache_clear()
    yield
    features.knows_bytecode.cache_clear()


def test_bytecode_decoding_agrees_with_dis():
    assert features.knows_bytecode() and features.decodes_probe()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("change", ["an opcode that names", "bits below an index", "cache entries", "interpreter"])
def test_bytecode_that_disagrees_with_the_disassembler_is_rejected(monkeypatch, change):
    if change == "an opcode that names":
        monkeypatch.setattr(dis, "hasname", [*dis.hasname, dis.opmap["RETURN_VALUE"]])
    elif change == "bits below an index":
        monkeypatch.setitem(features.NAMING, "IMPORT_NAME", 2)  # as in Python 3.15
    elif change == "cache entries":
        monkeypatch.setattr(features, "CACHE", dis.opmap["POP_TOP"])
    else:
        monkeypatch.setattr(features.sys, "implementation", types.SimpleNamespace(name="other"))
    if change != "interpreter":
        assert not features.decodes_probe()
        monkeypatch.setattr(features, "_KNOWN_BYTECODE", set())
    assert not features.knows_bytecode()


def test_unknown_bytecode_disables_analysis_and_error_names_remedy(monkeypatch):
    monkeypatch.setattr(follow, "knows_bytecode", lambda: False)

    def f(x):
        y = np.zeros(2)
        y[0] = x[0] ** 2
        return y

    with pytest.raises(TracedValueError, match=r"np\.zeros\(n, like=x\)"):
        wg.jacobian(f, np.ones(2))


@pytest.mark.parametrize(("text", "expected"), [("a + b", True), ("a **= b", True), ("a[b]", False), ("a(b)", False)])
def test_binary_operator_differs_from_subscript(text, expected):
    code = compile(text, "text", "exec").co_code
    assert any(features.is_operator_code(code, at) for at in range(0, len(code), 2) if code[at]) == expected


def test_opcode_after_the_operators_is_not_an_operator():
    at_work = [bytes([dis.opmap["BINARY_OP"], number]) for number in (0, 25, 26)]  # 26 is a subscript in Python 3.14
    assert [features.is_operator_code(code, 0) for code in at_work] == [True, True, False]


@pytest.mark.parametrize(("text", "expected"), [("a[b] = c", True), ("a[b:c] = d", True), ("a.b = c", False)])
def test_store_differs_from_other_instructions(text, expected):
    code = compile(text, "text", "exec").co_code
    assert any(features.is_assignment_code(code, at) for at in range(0, len(code), 2) if code[at]) == expected


class Slotted:
    __slots__ = ("x",)


class Borrowing:
    __init__ = dict.__init__
    __repr__ = object.__repr__


MADE_IN_PYTHON = [Slotted, Borrowing, type("Made", (float,), {}), collections.Counter, collections.namedtuple("N", "a")]
MADE_IN_C = [itertools.count, functools.partial, collections.deque, re.Pattern, np.ndarray, np.random.Generator, object]


@pytest.mark.parametrize("cls", [*MADE_IN_PYTHON, *MADE_IN_C], ids=lambda cls: cls.__name__)
def test_python_classes_differ_from_c_classes(cls):
    assert features.is_made_in_python(cls) == (cls in MADE_IN_PYTHON)


def test_numpy_error_state_is_set_and_reset_in_both_ways():
    for state, kept in ((features.float_errors, features.float_errors_with), (features._Entered, np.errstate)):
        before = np.geterr()
        token = state.set(kept(all="raise"))
        assert np.geterr()["divide"] == "raise"
        state.reset(token)
        assert np.geterr() == before


def mixed(a, b=1, /, c=2, *rest, d, e=None, **others):
    pass


FUNCTIONS = (mixed, lambda *x, y=1: x, lambda: None, lambda **x: x, np.sum, np.linalg.solve, np.where, np.dot)
UFUNCS = (np.add, np.negative, np.modf, np.matmul)


OTHERS = functools.wraps(mixed)(lambda: None), functools.partial(mixed, 1), max


@pytest.mark.parametrize("fun", [*FUNCTIONS, *UFUNCS, *OTHERS])
def test_parameters_are_those_that_inspect_finds(fun):
    try:
        expected = [(x.name, x.kind.name, x.default) for x in inspect.signature(fun).parameters.values()]
    except (ValueError, TypeError):
        if fun in features._WRITTEN_AS:
            pytest.skip("inspect does not know the parameters")
        expected = None
    found = features.parameters_of(fun)
    assert (found and [(x.name, x.kind, x.default) for x in found]) == expected or found == expected == []


def test_methods_are_found_through_super():
    class Base:
        def of(self, x):
            return super().dot(x)

    assert "dot" in rename.read(Base.of.__code__).methods


@pytest.mark.parametrize("exponent", [-1, 0.5, 2, np.float64(-1.0), np.float64(0.5), 3.0, -0.5])
def test_recorded_powers_equal_the_operator_to_the_last_bit(exponent):
    """NumPy's operator takes shortcuts for some exponents, and in old releases `numpy.power` does not."""
    x = np.linspace(0.1, 5.0, 2000)
    assert np.array_equal(wg.record(lambda x: x**exponent, x, exact=True)(x), x**exponent)
    gradient = wg.grad(lambda x: (x**exponent).sum())(x)
    np.testing.assert_allclose(gradient, float(exponent) * x ** (exponent - 1.0), rtol=1e-14)
