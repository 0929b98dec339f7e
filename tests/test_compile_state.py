"""What a function reads is changed between two calls: compiled it gives the new value, or runs as it is and warns."""

import contextlib
import decimal
import os
import sys
import warnings

import numpy as np
import pytest

import state_cases
import state_frameworks
import wengert as wg
from state_cases import CHANGING, KEPT, UNDIFFERENTIATED

CASES = state_cases.CASES | state_frameworks.CASES


@pytest.fixture(autouse=True)
def unchanged():
    """What the cases change of the process is put back."""
    path, argv, limit = os.getcwd(), [*sys.argv], sys.getrecursionlimit()
    names = {*sys.modules}
    with decimal.localcontext():
        yield
    os.chdir(path)
    sys.argv[:] = argv
    sys.setrecursionlimit(limit)
    os.environ.pop("STATE_CASE", None)
    for name in {name for name in sys.modules if name.startswith("state_case_")} - names:
        del sys.modules[name]


X = 1.5


@contextlib.contextmanager
def compile_warnings():
    """Warnings of calls that run as they are; all others are errors."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", wg.CompileWarning)
        yield caught


@pytest.mark.parametrize("recheck", [None, "auto", 1])
@pytest.mark.parametrize("name", CASES)
def test_a_change_counts_at_once(name, recheck):
    f, change = CASES[name]()
    with compile_warnings() as caught:
        compiled = wg.compile(f, recheck=recheck)
        before = f(X)
        for _ in range(5):
            np.testing.assert_allclose(compiled(X), before, rtol=1e-14)
        change()
        after = f(X)
        assert (after == before) == (name in KEPT)
        for _ in range(3):
            np.testing.assert_allclose(compiled(X), after, rtol=1e-14)
    assert len(caught) <= 1
    assert compiled.paths or caught


DERIVATIVES = {"gradient": wg.grad, "Hessian": wg.hessian}


@pytest.mark.parametrize("operator", DERIVATIVES)
@pytest.mark.parametrize("name", [name for name in CASES if name not in UNDIFFERENTIATED])
def test_a_change_counts_at_once_in_derivatives(name, operator):
    f, change = CASES[name]()
    operator = DERIVATIVES[operator]

    def squared(u):
        return f(u) * u

    with compile_warnings():
        compiled = operator(wg.compile(squared, recheck=None))
        plain = operator(squared)
        for _ in range(3):
            np.testing.assert_allclose(compiled(X), plain(X), rtol=1e-13)
        change()
        for _ in range(2):
            np.testing.assert_allclose(compiled(X), plain(X), rtol=1e-13)


@pytest.mark.parametrize("recheck", [None, "auto", 1])
@pytest.mark.parametrize("name", CHANGING)
def test_what_differs_in_each_call_is_not_compiled(name, recheck):
    compiled = wg.compile(CHANGING[name](), recheck=recheck)
    with compile_warnings() as caught:
        found = [compiled(X) for _ in range(6)]
    assert len({*map(float, found)}) == 6 - 3 * (name == "cycle in an object")
    assert len(caught) == 1 and not compiled.paths
