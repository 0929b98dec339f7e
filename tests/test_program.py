"""`wengert.record` and `wengert.Program`: values of f and derivatives of eager mode, without calling f."""

import collections
import copy
import pathlib
import pickle
import re
import subprocess
import sys
import types

import numpy as np
import pytest
from scipy import special
from scipy.interpolate import CubicSpline
from scipy.sparse import diags
from wengert.program.ir.ir import Listing
from wengert.program.ir.opcodes import Op

import wengert as wg
from helpers import assert_rounding, assert_same_bits, in_threads
from wengert.core import frames
from wengert.errors import GuardError
from wengert.program.ir import reference, verify
from wengert.program.passes import simplify
from wengert.program.swept import Stacked
from wengert.sparse.drivers import SparseOperator

x = np.array([0.5, -1.5, 2.0])
scale = 3.0
grid = np.ones(3)
counts = np.array([1, 2, 3])


def pairs(u):
    total = 0.0
    for i in range(len(u) - 1):
        total += (u[i + 1] - u[i] ** 2) ** 2 * scale
    return total


def written(u):
    F = np.zeros(u.size)
    for i in range(u.size):
        F[i] = u[i] ** 2 - np.exp(-u[i - 1])
    return F


def branching(u):
    return np.sin(u[0]) if u[1] > 0 else u[2] ** 2


VALUES = {
    "a number": (pairs, x),
    "an array": (lambda u: np.sin(u) * grid, x),
    "written element by element": (written, x),
    "a list of numbers": (lambda u: [u[0] * u[1], 2.0, u[2]], x),
    "a tuple": (lambda u: (u[0] * u[1], u[2]), x),
    "a nested list": (lambda u: [[u[0], 1.0], [u[1], u[2]]], x),
    "a dict": (lambda u: {"a": u * 2, "b": [u[0], u], "n": 3, "s": "text", "none": None}, x),
    "a constant": (lambda u: 2.5, x),
    "a constant array": (lambda u: np.ones(2), x),
    "flags": (lambda u: (u > 0, u[0] > 1), x),
    "integers": (lambda u: np.argsort(u), x),
    "a list as x": (lambda u: u @ u, [1, 2]),
    "an integer as x": (lambda u: u**3, 2),
    "a matrix": (lambda u: u @ u.T, np.arange(6.0).reshape(2, 3)),
    "a container as x": (lambda d: d["a"] * d["b"][0], {"a": x, "b": [2.0, x]}),
    "a namespace as x": (lambda d: d.a * d.b, types.SimpleNamespace(a=x, b=2)),
    "float32": (lambda u: u * 2, x.astype(np.float32)),
    "no elements": (lambda u: np.sum(u) + 1.0, np.zeros(0)),
}


def leaves(y):
    """Return arrays and scalars of a result in order."""
    if isinstance(y, dict):
        y = [*y.values()]
    if isinstance(y, (list, tuple)):
        return [leaf for item in y for leaf in leaves(item)]
    return [y]


def assert_matches(got, expected):
    """Check structure and types, and values to a few units in the last place."""
    assert type(got) is type(expected) or isinstance(got, np.generic)
    for one, other in zip(leaves(got), leaves(expected), strict=True):
        if isinstance(other, (str, type(None))):
            assert one == other
        else:
            assert np.asarray(one).dtype == np.asarray(other).dtype
            tolerance = 1e-6 if np.asarray(other).dtype == np.float32 else 1e-13
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def moved(point):
    """Return another point with the same structure."""
    if isinstance(point, dict):
        return {name: moved(item) for name, item in point.items()}
    if isinstance(point, list):
        return [moved(item) for item in point]
    if isinstance(point, types.SimpleNamespace):
        return types.SimpleNamespace(**moved(vars(point)))
    return point * 1.25


def as_seen_inside(point):
    """Return the point as f receives it inside a derivative."""
    if isinstance(point, (dict, types.SimpleNamespace)):
        return point
    return np.asarray(point, None if isinstance(point, np.ndarray) else float)[()]


@pytest.mark.parametrize("exact", [False, True])
def test_choices_between_operands_that_are_broadcast(exact):
    a, b = np.array([2.5, -1.0, 0.3, 0.7, -0.2, 0.0]).reshape(2, 1, 3), np.array([-1.1, 0.4, 2.0, 0.5]).reshape(4, 1)
    for f in (
        lambda a, b: np.where(a * b > 0, b, 7.0),
        lambda a, b: np.where(a * b > 0, 7.0, b),
        lambda a, b: np.where(a + b > 1, a, b),
        lambda a, b: np.where(b > 0, a, b),
    ):
        program = wg.record(f, a, args=(b,), exact=exact)
        np.testing.assert_array_equal(program(a, b), f(a, b))
        np.testing.assert_array_equal(program(-a, b), f(-a, b))


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("exact", [False, True])
def test_values_match_the_function(name, exact):
    f, point = VALUES[name]
    program = wg.record(f, point, exact=exact)
    for at in (point, moved(point)):
        assert_matches(program(at), f(as_seen_inside(at)))


matrix = np.arange(1.0, 5.0).reshape(2, 2)

#: function, point, and the derivatives that have programs
DERIVATIVES = {
    "a number": (pairs, x, "grad jvp vjp hvp jacobian hessian"),
    "an array": (lambda u: np.sin(u) * grid, x, "jvp vjp jacobian"),
    "written element by element": (written, x, "jvp vjp jacobian"),
    "a list of numbers": (lambda u: [u[0] * u[1], 2.0, u[2] ** 2], x, "jvp vjp jacobian"),
    "a nested list": (lambda u: [[u[0] * u[1], 1.0], [u[1], u[2]]], x, "jvp vjp jacobian"),
    "a constant": (lambda u: 2.5, x, "grad jacobian"),
    "a list as x": (lambda u: u @ u * u[0], [1, 2], "grad hvp jacobian hessian"),
    "an integer as x": (lambda u: u**3, 2, "grad jvp vjp jacobian hessian"),
    "a number to an array": (lambda u: np.array([u, u**2]), 2.0, "jvp vjp jacobian"),
    "a matrix": (lambda u: u @ u, matrix, "jvp vjp jacobian"),
    "a matrix in Fortran's order": (lambda u: np.sum(np.sin(u) @ u), matrix.T, "grad jvp vjp jacobian hessian"),
    "a transpose": (lambda u: (u * 2).T, matrix, "jvp vjp jacobian"),
    "a container as x": (lambda d: d["a"] @ d["b"][1] * d["b"][0], {"a": x, "b": [2.0, x]}, "grad"),
    "float32": (lambda u: np.sum(np.sin(u) * u), x.astype(np.float32), "grad jacobian"),
    "a branch": (branching, x, "grad jacobian hessian"),
    "a solve": (lambda u: np.linalg.solve(np.diag(u) + 0.1, u**2), x, "jvp vjp jacobian"),
}


def eager(word, f, point, direction):
    if word in ("jvp", "hvp"):
        return getattr(wg, word)(f, point, direction)
    if word == "vjp":
        y, pullback = wg.vjp(f, point)
        return y, pullback(direction)
    return getattr(wg, word)(f, point)


@pytest.mark.parametrize(("name", "word"), [(name, word) for name in DERIVATIVES for word in
                                            DERIVATIVES[name][2].split()])  # fmt: skip
def test_derivatives_match_those_of_the_function(name, word):
    f, point, _ = DERIVATIVES[name]
    program = wg.record(f, point)
    derived = getattr(program, word)()
    for at in (point, moved(point)) if isinstance(point, (np.ndarray, dict)) else (point,):
        given = (at,)
        direction = None
        if word in ("jvp", "vjp", "hvp"):
            like = np.asarray(f(as_seen_inside(at)) if word == "vjp" else at)
            direction = np.cos(np.arange(like.size)).reshape(like.shape)[()]
            given = (at, direction)
        assert_matches(derived(*given), eager(word, f, at, direction))
    assert getattr(program, word)() is derived
    assert repr(derived).startswith(f"<program of {word}({f.__qualname__})")


@pytest.mark.parametrize("exact", [False, True])
def test_jacobian_of_a_single_precision_result(exact):
    def f(x):
        values = x.reshape(2, 2).astype(np.float32)
        return np.concatenate([np.ravel(values), np.ravel(np.ptp(values))])

    x = np.array([0.815, 1.417, -0.662, 1.132])
    expected = np.vstack([np.eye(4), [0.0, 1.0, -1.0, 0.0]])
    np.testing.assert_array_equal(wg.record(f, x, exact=exact).jacobian()(x), expected)


def test_dir_shows_documented_names_only():
    """`dir()` of a program, by rows or sparse too, lists the members that the API reference documents."""
    page = (pathlib.Path(__file__).parents[1] / "docs/_templates/autosummary/class.rst").read_text()
    documented = set(re.search(r'"wengert.Program": "(.*)"', page)[1].split(", "))
    program = wg.record(lambda x: np.sin(x) * x[0], np.ones(3))
    sparse = SparseOperator(np.sin, 0, False, True, "csr", "forward", 1).of_program(program)
    for made in (program, Stacked(program, 0, False, "J", True), sparse):
        assert {name for name in dir(made) if not name.startswith("_")} == documented, repr(made)


def test_derivatives_of_programs_have_derivatives():
    program = wg.record(pairs, x)
    assert_matches(program.grad().jacobian()(x), wg.hessian(pairs, x))
    assert_matches(program.hessian().jacobian()(x), wg.jacobian(wg.hessian(pairs), x))
    assert_matches(program.grad().vjp()(x, x), (wg.grad(pairs, x), wg.hessian(pairs, x) @ x))


def test_operators_are_recorded():
    assert_matches(wg.record(wg.grad(pairs), x)(x), wg.grad(pairs, x))
    assert_matches(wg.record(wg.grad(pairs, value=True), x)(x), wg.grad(pairs, x, value=True))
    assert_matches(wg.record(wg.compile(pairs), [1, 2, 3])([1, 2, 3]), pairs(np.array([1.0, 2.0, 3.0])))


def test_further_arguments_are_those_of_the_recording():
    def f(u, k, *, n=1, shift=0.0):
        return np.sum(u**n * k) + shift

    program = wg.record(f, x, args=(2.0,), kwargs={"n": 3, "shift": 1.0})
    assert program(x, 3.0, n=3, shift=2.0) == f(x, 3.0, n=3, shift=2.0)
    assert_matches(program.grad(1)(x, 3.0, n=3, shift=2.0), np.sum(x**3))
    assert_matches(program.jvp(1)(x, 2.0, 3.0, n=3, shift=2.0)[1], 2 * np.sum(x**3))
    assert_matches(program.vjp()(x, 2.0, 3.0, n=3, shift=2.0)[1], 18 * x**2)
    for args, kwargs in [((x, 3.0), {"n": 2, "shift": 2.0}), ((x,), {}), ((x[:2], 3.0), {"n": 3, "shift": 2.0})]:
        with pytest.raises(ValueError, match="recorded for other arguments"):
            program(*args, **kwargs)
    with pytest.raises(TypeError, match="2 positional arguments"):
        program.grad(2)


def test_state_read_by_f_is_constant(monkeypatch):
    here = sys.modules[__name__]
    program = wg.record(lambda u: u * scale + grid * counts, x)
    expected = program(x)
    for name in ("scale", "grid", "counts"):
        monkeypatch.setattr(here, name, np.copy(getattr(here, name)))
    program = wg.record(lambda u: u * scale + grid * counts, x)
    for array in (scale, grid, counts):
        array[...] = 7
    assert_same_bits(program(x), expected, "")
    monkeypatch.setattr(here, "scale", 7.0)
    assert_same_bits(program(x), expected, "")
    assert_same_bits(expected, x * 3.0 + np.array([1.0, 2.0, 3.0]), "")


def test_results_belong_to_the_caller():
    program = wg.record(lambda u: {"y": u * 2, "c": np.ones(3)}, x)
    first = program(x)
    first["c"][:] = first["y"][:] = 0.0
    assert_matches(program(x), {"y": x * 2, "c": np.ones(3)})


@pytest.mark.parametrize("f", [lambda u: u, lambda u: u[::-1], lambda u: (u, u)])
def test_results_share_no_memory_with_arguments(f):
    u = x.copy()
    for y in leaves(wg.record(f, x)(u)):
        assert not np.shares_memory(y, u)


def test_out_receives_the_derivative():
    program = wg.record(written, x)
    for derived in (program, program.jacobian(), wg.record(np.sin, x).jacobian()):
        expected = derived(x)
        out = np.empty_like(expected)
        assert derived(x, out=out) is out
        assert_same_bits(out, expected, "")
        strided = np.empty((*expected.shape, 2))[..., 0]
        derived(x, out=strided)
        assert_same_bits(strided.copy(), expected, "")
        with pytest.raises(ValueError, match="out= has shape"):
            derived(x, out=np.empty(7))
    with pytest.raises(TypeError, match="single array"):
        wg.record(lambda u: (u, u), x)(x, out=np.empty(3))


def test_similar_calls_are_distinguished():
    """A call that differs from the previous one must not reuse its fast path."""
    program = wg.record(lambda u, k: u * k, x, args=(2.0,))
    others = [(x[:2], 2.0), (x, 2), (x,), (x, 2.0, 1.0), (x.reshape(3, 1), 2.0), (x, x)]
    for args in others:
        np.testing.assert_array_equal(program(x, 3.0), 3 * x)
        np.testing.assert_array_equal(program([1, 2, 3], 3.0), [3, 6, 9])
        np.testing.assert_array_equal(program(np.array([1, 2, 3]), 3.0), [3, 6, 9])
        with pytest.raises(ValueError, match="recorded for other arguments"):
            program(*args)


def test_guard_error_names_value_and_line():
    program = wg.record(branching, x * [1, -1, 1])
    line = branching.__code__.co_firstlineno + 1
    for derived in (program, program.grad(), program.jacobian(), program.hessian()):
        with pytest.raises(wg.GuardError, match=rf"test_program.py:{line}.*True"):
            derived(x)
    assert program(-x) == np.sin(-x[0])


@pytest.mark.parametrize("derived", [lambda p: p, lambda p: p.grad(), lambda p: p.jacobian(), lambda p: p.hessian()])
def test_copies_compute_the_same_bits(derived, tmp_path):
    program = derived(wg.record(lambda u: np.sum(np.linalg.inv(np.outer(u, u) + np.eye(3))) * scale, x))
    expected = program(x)
    program.save(tmp_path / "f.program")
    copies = [pickle.loads(pickle.dumps(program)), copy.copy(program), copy.deepcopy(program),
              wg.Program.load(tmp_path / "f.program")]  # fmt: skip
    for other in copies:
        assert str(other) == str(program)
        assert_same_bits(other(x), expected, "")
        if np.shape(expected) == ():
            assert_same_bits(other.grad()(x), program.grad()(x), "")


weights = np.linspace(-1, 1, 60)


def guarded_loop(u, k):
    s = 0.0
    for i in range(u.size - 1):
        s += (u[i + 1] - k * u[i] ** 2) ** 2 * float(weights[i])
    return s + np.sum(u * weights) if u[0] > 0 else s


def test_source_line_of_guards_is_looked_up_once(monkeypatch):
    """The look-up is linear in the number of instructions of the function, and a loop may have many guards."""
    found = []
    monkeypatch.setattr(
        frames, "where", lambda position, where=frames.where: found.append(position) or where(position)
    )

    def f(x):
        s = x[0]
        for v in x:
            s = max(s, v)
        return s if s > 0 else -s

    with pytest.raises(GuardError, match=rf"test_program.py:{f.__code__.co_firstlineno + 3}.*"):
        wg.record(f, np.arange(1.0, 9.0))(np.arange(9.0, 1.0, -1.0))
    assert len(found) == 2


def test_save_keeps_loops_guards_and_arrays(tmp_path):
    z = np.random.default_rng(0).uniform(0.1, 1, 60)
    program = wg.record(guarded_loop, z, args=(2.0,))
    for word in ("", "grad", "vjp", "jvp", "hvp", "jacobian", "hessian"):
        saved = getattr(program, word)() if word else program
        path = tmp_path / "f.program"
        saved.save(path)
        loaded = wg.Program.load(path)
        verify.check(loaded)
        given = {"vjp": (1.0, 3.0), "jvp": (weights, 3.0), "hvp": (weights, 3.0)}.get(word, (3.0,))
        found, expected = loaded(z, *given), saved(z, *given)
        for y, of_saved in zip(found, expected) if type(found) is tuple else [(found, expected)]:
            assert_same_bits(y, of_saved, word)
        with pytest.raises(wg.GuardError, match="True"):
            loaded(-z, *given)
        assert (str(loaded), repr(loaded.explain())) == (str(saved), repr(saved.explain()))
    assert program.explain().vectorised < 30 < len(program)


def test_saved_program_runs_in_another_process(tmp_path):
    path = tmp_path / "f.program"
    wg.record(pairs, x).grad().save(path)
    code = f"import wengert as wg; print(wg.Program.load({str(path)!r})([0.5, -1.5, 2.0]).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(wg.record(pairs, x).grad()(x).tolist())


def test_failed_save_leaves_file_unchanged(tmp_path):
    path = tmp_path / "f.program"
    own = wg.primitive(lambda u: np.sin(u), vjp=lambda y, u: lambda g: g * np.cos(u))
    wg.record(pairs, x).save(path)
    with pytest.raises(TypeError, match="at module level"):
        wg.record(lambda u: own(u), x).save(path)
    assert str(wg.Program.load(path)) == str(wg.record(pairs, x))


#: a change of the bytes of a file, and the error message
FILES = {
    "a pickle": (lambda content: pickle.dumps([1]), TypeError, "was not written by Program.save"),
    "nothing": (lambda content: b"", TypeError, "was not written by Program.save"),
    "the beginning": (lambda content: content[:-10], ValueError, "is damaged.*Record the program again"),
    "the head": (lambda content: content[:20], ValueError, "record it again"),
    "another bit": (lambda content: content[:200] + bytes([content[200] ^ 4]) + content[201:], ValueError, "damaged"),
    "another form": (lambda content: content.replace(b"\n3-", b"\n2-", 1), ValueError, "in format 2-.*record it again"),
}


def test_invalid_files_raise(tmp_path):
    state = wg.record(pairs, x).__getstate__()
    with pytest.raises(ValueError, match="record it again"):
        wg.Program.__new__(wg.Program).__setstate__({**state, "_version": 0})
    path = tmp_path / "f.program"
    wg.record(pairs, x).save(path)
    content = path.read_bytes()
    for change, error, message in FILES.values():
        path.write_bytes(change(content))
        with pytest.raises(error, match=message):
            wg.Program.load(path)


REFUSED = {
    "no floats": (lambda u: np.argsort(u), x, "jacobian", "int64"),
    "several arrays": (lambda u: (u, u), x, "jacobian", "one array or number"),
    "a dict": (lambda u: {"a": u}, x, "vjp", "one array or number"),
    "no number": (np.sin, x, "grad", "single number: use jacobian"),
    "a loop over rows": (wg.jacobian(lambda u: np.sort(u * u[0])), x, "jacobian", "record the derivative"),
    "a container": (lambda d: d["a"] * 2, {"a": x}, "jacobian", "container"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_derivative_of_program_raises(name):
    f, point, word, message = REFUSED[name]
    with pytest.raises(TypeError, match=message):
        getattr(wg.record(f, point), word)()


def appends(u):
    VALUES["new"] = u
    return u


class Keeps:
    def __init__(self, u):
        self.u = u


class KeepsInSlot:
    __slots__ = ("u",)

    def __init__(self, u):
        self.u = u

    def method(self):
        return self.u


UNRECORDED = {
    "an effect": (appends, x, wg.TracedValueError, "VALUES|dict"),
    "an argument written": (lambda u: u.__setitem__(0, 1.0), x, wg.TracedValueError, "copy"),
    "a generator": (lambda u: (v * 2 for v in u), x, wg.TracedValueError, "generator that hides traced values"),
    "an iterator": (lambda u: map(np.sin, u), x, wg.TracedValueError, "map that hides traced values"),
    "an object": (Keeps, x, wg.TracedValueError, "Keeps that hides traced values"),
    "an object with slots": (KeepsInSlot, x, wg.TracedValueError, "KeepsInSlot that hides traced values"),
    "an object within others": (lambda u: Keeps([{"a": KeepsInSlot(u)}]), x, wg.TracedValueError, "Keeps that hides"),
    "a method of an object": (lambda u: KeepsInSlot(u).method, x, wg.TracedValueError, "method that hides"),
    "a default value": (lambda u: lambda v=u: v, x, wg.TracedValueError, "function that hides traced values"),
    "a deque": (lambda u: collections.deque([u]), x, wg.TracedValueError, "deque that hides traced values"),
    "a spline": (lambda u: CubicSpline(np.arange(3.0), u), x, wg.TracedValueError, "CubicSpline that hides"),
    "a matrix": (lambda u: diags([u], [0]).sum(axis=0), x, wg.TracedValueError, "matrix that hides traced values"),
    "its memory": (lambda u: memoryview(u)[0], x, wg.TracedValueError, "memoryview"),
    "no rule": (lambda u: np.histogram(u, "auto")[0], x, wg.UnsupportedFunctionError, "histogram"),
    "text": (lambda u: u, "a", TypeError, "pass a number"),
}


@pytest.mark.parametrize("name", UNRECORDED)
def test_unrecordable_function_raises(name):
    f, point, error, message = UNRECORDED[name]
    with pytest.raises(error, match=message):
        wg.record(f, point)


class Named(list):
    name = "none"


def test_compiled_results_of_other_classes_are_those_of_the_call():
    def named(u):
        found = Named([2 * u, 3.0, [u]])
        found.name = "double"
        return found

    f, g, h = map(wg.compile, (named, lambda u: KeepsInSlot(2 * u), lambda u: diags([u], [0]).sum(axis=0)))
    for k in range(2):
        y = f(x + k)
        np.testing.assert_array_equal(y[0], 2 * y[2][0])
        np.testing.assert_array_equal(y[0], 2 * (x + k))
        assert (type(y), y.name, y[1]) == (Named, "double", 3.0)
        np.testing.assert_array_equal(g(x + k).u, 2 * (x + k))
        total = h(x + k)
        assert isinstance(total, np.matrix) and np.array_equal(total, [x + k])
    np.testing.assert_array_equal(wg.jacobian(lambda u: diags([u], [0]).sum(axis=0))(x), [np.eye(3)])


program_of_a_number = wg.record(lambda a, k=1.0: np.sin(a) * k, 1.0, kwargs={"k": 2.0})
program_of_two = wg.record(lambda u, a: np.sum(np.cos(u)) * a, x, args=(2.0,))

#: calls inside a derivative with an argument that carries it
TRACED = {
    "an array": lambda u: program_of_two(u, 2.0),
    "a part of one": lambda u: program_of_two(u[::-1], 2.0),
    "its derivative": lambda u: program_of_two.grad()(u, 2.0) @ u,
    "its Hessian": lambda u: np.sum(program_of_two.hessian()(u, 2.0)),
    "a direction": lambda u: program_of_two.jvp()(x, u, 2.0)[1],
    "a cotangent": lambda u: np.sum(program_of_two.vjp()(x, u[0], 2.0)[1]),
    "a number": lambda u: program_of_a_number(u[0], k=2.0),
    "a list of numbers": lambda u: program_of_two([u[0], u[1], 2.0], 2.0),
    "a further argument": lambda u: program_of_two(x, u[0]),
    "a keyword": lambda u: program_of_a_number(1.0, k=u[0]),
    "with out=": lambda u: np.sum(program_of_two.grad()(u * 1.0, 2.0, out=np.zeros(3))),
    "a point to record at": lambda u: wg.record(pairs, u)(x),
    "an argument to record at": lambda u: wg.record(lambda v, a: v * a, 1.0, args=(u[0],))(1.0, 2.0),
    "a keyword to record at": lambda u: wg.record(lambda v, a: v * a, 1.0, kwargs={"a": u[0]})(1.0, a=2.0),
}


@pytest.mark.parametrize("transform", [wg.grad, wg.jacfwd, wg.hessian])
@pytest.mark.parametrize("name", TRACED)
def test_traced_arguments_raise(name, transform):
    """A program would lose the derivative; earlier calls do not disable the check."""
    for _ in range(2):
        program_of_two(x, 2.0), program_of_a_number(1.0, k=2.0)
        with pytest.raises(wg.TracedValueError, match=r"an argument is traced.*call the function itself"):
            transform(TRACED[name])(x)


def test_program_accepts_plain_arguments_inside_derivative():
    np.testing.assert_array_equal(wg.grad(lambda u: program_of_two(x, 2.0) * u[0])(x), [program_of_two(x, 2.0), 0, 0])

    def f(u):
        z = np.zeros(3)
        y = program_of_two.grad()(z + 1.0, 2.0)
        z[0] = u[0]
        return np.sum(z * y)

    np.testing.assert_allclose(wg.grad(f)(x), [-2 * np.sin(1.0), 0, 0], rtol=1e-15)


NO_INPUTS = {
    "objects": (np.array([None]), "dtype object"),
    "a masked array": (np.ma.masked_array([1.0, 2.0], [0, 1]), "MaskedArray"),
    "an iterator": (iter([1.0]), "iterator"),
    "long doubles": (np.ones(2, np.longdouble), "float128|longdouble|float64"),
}


@pytest.mark.parametrize("name", NO_INPUTS)
def test_unsupported_argument_types_raise(name):
    argument, word = NO_INPUTS[name]
    for call in (
        lambda: wg.record(lambda u, a: u, 1.0, args=(argument,)),
        lambda: wg.record(lambda u, a: u, 1.0, kwargs={"a": argument}),
        lambda: wg.record(lambda u, a: u, 1.0, args=([argument],)),
        lambda: program_of_two(x, argument),
    ):
        with pytest.raises(TypeError, match=word):
            call()
    for call in (lambda: wg.record(lambda u: u, argument), lambda: program_of_two(argument, 2.0)):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("bins", [6, [-1.2, -0.3, 0.1, 1.0, 1.5]], ids=["even", "edges"])
@pytest.mark.parametrize("is_constant", [True, False], ids=["constant samples", "samples"])
def test_histograms_are_recorded_for_all_samples(bins, is_constant):
    def f(weights, samples):
        a = wg.stop_gradient(samples) if is_constant else samples
        counts, edges = np.histogram(a, bins, weights=weights * wg.stop_gradient(samples))
        return (counts / np.maximum(np.histogram(a, bins)[0], 1)) ** 2 * edges[1:]

    weights, samples = np.linspace(0.5, 2.0, 40), np.sin(np.arange(40.0))
    program = wg.record(f, weights, args=(samples,))
    for there in (samples, np.cos(samples) + 0.3, samples[::-1] ** 3):
        assert_rounding(program(weights, there), f(weights, there))
        assert_rounding(program.jacobian()(weights, there), wg.jacobian(f)(weights, there))
    if not is_constant:
        compiled = wg.jacobian(wg.compile(f), argnums=1)
        for derive in (program.jacobian, program.jvp, program.vjp, lambda _: compiled(weights, samples)):
            with pytest.raises(wg.UnsupportedFunctionError, match="no derivative in its samples: counts jump"):
                derive(1)


def test_histograms_of_many_samples_have_the_bits_of_plain_code():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 150_000))
    for bins in (100, np.sort(rng.normal(size=20))):
        plain = np.histogram(x, bins, weights=w)[0]
        assert_same_bits(wg.vjp(lambda w: np.histogram(x, bins, weights=w)[0], w)[0], plain, "eager")
        assert_same_bits(wg.record(lambda w, x: np.histogram(x, bins, weights=w)[0], w, args=(x,))(w, x), plain, "")


def test_text_and_counts():
    program = wg.record(branching, -x)
    assert len(program) == str(program).count("\n")
    assert "guard" in str(program)
    assert repr(program) == f"<program of branching: {len(program)} instructions>"
    found = program.explain()
    assert sum(found.instructions.values()) == len(program)
    assert found.inputs == [(np.dtype(float), (3,))]
    assert found.outputs == [(np.dtype(float), ())]
    assert [value for value, place in found.guards] == [True]
    assert repr(found).startswith(f"branching: {len(program)} instructions\n  inputs      float64[3]\n")


def test_work_memory_is_that_of_live_values():
    n = 1000
    found = wg.record(lambda u: np.cos(np.cos(np.cos(u)) * 2) + 1, np.ones(n)).explain()
    assert 8 * n <= found.peak_bytes <= 3 * 8 * n
    assert wg.record(lambda u: u + counts * 1.0, x).explain().constant_bytes == 24


def test_threads_get_the_same_bits():
    program = wg.record(pairs, np.linspace(0, 1, 200)).grad()
    points = [np.random.default_rng(i).normal(size=200) for i in range(8)]
    expected = [program(point) for point in points]

    def work(i):
        for _ in range(50):
            assert_same_bits(program(points[i]), expected[i], "")

    in_threads(work)


def test_guard_of_rule_is_removed_with_dead_operand():
    A, B = np.random.default_rng(0).normal(size=(2, 6, 6))

    def f(x):
        return np.sum(np.tanh(A @ np.tanh(B @ x)) ** 2)

    def products(program):
        return sum(call.name == "matmul" for call in program._lowered_ir().calls)

    x, v = np.linspace(0.2, 0.9, 6), np.linspace(-1.0, 1.0, 6)
    program = wg.record(f, x)
    # two of the function, two more of its gradient, the last of which is not needed; four of their tangents
    assert (products(program.grad()), products(program.hvp())) == (4, 7)
    np.testing.assert_allclose(program.hvp()(x, v), wg.hvp(f)(x, v), rtol=1e-13)
    verify.check(program.hvp()._lowered_ir())


def test_guard_of_function_is_kept_for_dead_operand():
    A = np.eye(3)

    def f(x):
        y = A @ x
        return np.sum(x) if np.isnan(np.vdot(y, y)) else np.sum(x * x)

    x = np.array([1.0, 2.0, 3.0])
    program = wg.record(f, x)
    for made in (program, program.grad(), program.hessian()):
        assert made(x) is not None
        with pytest.raises(GuardError):
            made(np.array([1.0, np.nan, 3.0]))


@pytest.mark.parametrize("n", [2, 40])
def test_zero_times_infinity_is_zero_after_guard_of_rule(n):
    A = np.random.default_rng(1).normal(size=(n, n))
    A[0, 0] = np.inf
    f = wg.compile(lambda x: np.sum((A @ x)[1:] ** 2) + np.sum(x))
    derivatives = wg.grad(f), wg.hessian(f)
    for x in (np.linspace(1.0, 2.0, n), np.linspace(-1.0, 0.5, n), np.linspace(3.0, 4.0, n)):
        expected = 2.0 * A[1:].T @ (A[1:] @ x) + 1.0, 2.0 * A[1:].T @ A[1:]
        for derivative, known in zip(derivatives, expected):
            with np.errstate(invalid="ignore"):  # NumPy warns before the rule checks
                found = derivative(x)
            np.testing.assert_allclose(found, known, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 5, 40])
def test_guard_of_rule_is_kept_if_operand_is_read_before_it(n):
    A = np.random.default_rng(1).normal(size=(n, n))
    infinite = A.copy()
    infinite[0, 0] = np.inf

    def f(x, A):
        return np.sum((A @ x)[1:] ** 2) + np.sum(x)

    x = np.linspace(1.0, 2.0, n)
    program = wg.record(f, x, args=(A,))
    with np.errstate(invalid="ignore"):
        for derivative in (program.grad(), program.hessian()):
            assert np.isfinite(derivative(x, A)).all()
            if n == 2:  # the product is expanded, and its terms need no guard
                np.testing.assert_array_equal(derivative(x, infinite), derivative(x, A))
                continue
            with pytest.raises(GuardError):
                derivative(x, infinite)
        hessian = wg.hessian(wg.compile(f))
        for matrix in (A, infinite, A, infinite):
            np.testing.assert_allclose(hessian(x, matrix), 2.0 * A[1:].T @ A[1:], rtol=1e-12)


def test_partials_at_constants_are_constants():
    x = np.linspace(0.5, 1.5, 40)
    program = wg.record(lambda x: np.sum(np.log(x) / np.sqrt(2.0) + np.arctan2(x, 3.0)), x).grad()
    assert "ddivide" not in str(program)
    np.testing.assert_allclose(program(x), 1.0 / (x * np.sqrt(2.0)) + 3.0 / (x * x + 9.0), rtol=1e-14)


ROOT_PI = np.sqrt(np.longdouble(np.pi))
# f at x in extended precision: its second and third derivatives
SLOPES = {
    "tanh": (
        np.tanh,
        lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2,
        lambda x: (4 * np.tanh(x) ** 2 - 2 / np.cosh(x) ** 2) / np.cosh(x) ** 2,
    ),
    "erf": (
        special.erf,
        lambda x: -4 * x * np.exp(-x * x) / ROOT_PI,
        lambda x: (8 * x * x - 4) * np.exp(-x * x) / ROOT_PI,
    ),
    "erfc": (
        special.erfc,
        lambda x: 4 * x * np.exp(-x * x) / ROOT_PI,
        lambda x: (4 - 8 * x * x) * np.exp(-x * x) / ROOT_PI,
    ),
}


@pytest.mark.parametrize("name", SLOPES)
def test_derivatives_of_partials_are_accurate_and_call_nothing_else(name):
    f, second, third = SLOPES[name]
    x = np.array([-8.0, -3.0, -0.7, -1e-9, 0.0, 1e-9, 0.3, 1.0, 2.5, 8.0, 15.0])
    v, extended = np.ones_like(x), x.astype(np.longdouble)
    program = wg.record(lambda x: np.sum(f(x)), x)
    hvp = program.hvp()
    np.testing.assert_allclose(hvp(x, v), second(extended).astype(float), rtol=2e-14)
    np.testing.assert_allclose(program.hessian()(x), np.diag(second(extended).astype(float)), rtol=2e-14)
    again = wg.record(lambda x: hvp_of(f, x, v), x).grad()
    np.testing.assert_allclose(again(x), third(extended).astype(float), rtol=1e-13, atol=1e-15)
    found = program.grad()._with_ir(program.grad()._differentiable_ir()).jvp()._lowered_ir()
    text = str(program._with_ir(found))
    assert text.count(f"{name}/da(") == 1 and " exp(" not in text and text.count(" tanh(") == (name == "tanh")


def hvp_of(f, x, v):
    return np.sum(wg.hvp(lambda x: np.sum(f(x)))(x, v))


def test_no_zero_additions_and_no_expand_dims_calls():
    def f(x):
        return np.sum((x[::3] + x[1::3] * x[2::3]) ** 2) + np.max(np.sum(x) * x, axis=0)

    x = np.linspace(0.5, 2.0, 30)
    gradient = wg.record(f, x).grad()
    assert "expand_dims" not in str(gradient)
    np.testing.assert_allclose(gradient(x), wg.grad(f)(x), rtol=1e-14)
    pairs = wg.record(lambda x: np.sum(np.sin(x[::2] * x[1::2])), x).grad()
    assert " add(" not in str(pairs)
    expected = np.stack([x[1::2], x[::2]], axis=1) * np.cos(x[::2] * x[1::2])[:, None]
    np.testing.assert_allclose(pairs(x), expected.ravel(), rtol=1e-14)


@pytest.mark.parametrize("places", [1, 3, 90, 512, 513])
@pytest.mark.parametrize("many", [7, 8, 9, 41])
def test_scatter_add_sums_many_elements_accurately(places, many):
    rng = np.random.default_rng(places)
    where = rng.integers(0, places, many * places + 1)
    weights = rng.normal(size=where.size)
    x = rng.normal(size=places)
    gradient = wg.record(lambda x: np.sum(weights * x[where] ** 2), x).grad()
    expected = np.bincount(where, 2 * weights * x[where], places)
    terms = np.bincount(where, np.abs(2 * weights * x[where]), places)
    assert np.all(np.abs(gradient(x) - expected) <= 2 * where.size * np.finfo(float).eps * terms)
    assert_same_bits(gradient(x), gradient(x))


cubed = wg.primitive(lambda x: x**3, vjp=lambda ybar, y, x: 3 * x**2 * ybar)
#: functions that call others twice, and the expected number of calls of the first one
CALLED_TWICE = {
    "equal": (lambda x: np.sort(x) * x + np.sort(x), "sort", 1),
    "of equal operands": (lambda x: np.sort(x * x) - x[0] * np.sort(x * x), "sort", 1),
    "of equal arguments": (lambda x: np.roll(x, (1,)) * np.partition(x, 1) * np.partition(x, 1), "partition", 1),
    "of other operands": (lambda x: np.sort(x) + np.sort(x * x), "sort", 2),
    "of other arguments": (lambda x: np.partition(x, 1) * np.partition(x, 2), "partition", 2),
    "of other constants": (lambda x: x @ np.full((3, 3), 2.0) * (x @ np.full((3, 3), 3.0)), "matmul", 2),
    "in a loop": (lambda x: sum(np.linalg.norm(np.sort(x)) * x for _ in range(5)), "norm", 1),
    "of an index": (lambda x: x[np.argsort(x)] * 2.0 + x[np.argsort(x)], "getitem", 1),
    "discrete": (lambda x: x[int(np.floor(x[0]))] * x[int(np.floor(x[0]))], "floor", 1),
    "user function": (lambda x: cubed(x) + cubed(x), "evaluate", 2),
}


@pytest.mark.parametrize("name", CALLED_TWICE)
def test_equal_calls_are_merged(name):
    f, called, count = CALLED_TWICE[name]
    x, v = np.array([1.5, 0.5, 2.5]), np.array([1.0, -2.0, 0.5])
    program = wg.record(f, x)
    assert str(program).count(f"{called}(") == count
    for point in (x, x + 0.25):
        np.testing.assert_allclose(program(point), f(point), rtol=1e-15)
        np.testing.assert_allclose(program.jacobian()(point), wg.jacobian(f)(point), rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(program.jvp()(point, v)[1], wg.jvp(f, point, v)[1], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("others", "stores"), [((), (1, 1)), ((1,), (2, 1)), ((0, 1), (3, 1)), ((3,), (1, 2))])
def test_stores_that_only_the_next_one_reads_are_merged(others, stores):
    """Other outputs keep the arrays before a store."""
    code = Listing()
    kind = np.dtype(float), (6,), None
    x = code.input(kind)
    a, b, c = [code.part(x, (8 * k, (), ()), np.dtype(float)) for k in (1, 2, 4)]
    arrays = [x]
    for offsets, values in (([0], [a]), ([1], [b]), ([0, 3], [c, a])):
        code.packs.append((np.array(offsets, np.int32), np.array(values, np.int32)))
        arrays.append(code.add(Op.PACK, kind, arrays[-1], len(code.packs) - 1))
    part = code.part(x, (24, (2,), (8,)), np.dtype(float))
    for offset, value in ((8, part), (8, code.part(x, (0, (2,), (8,)), np.dtype(float)))):
        arrays.append(code.place(arrays[-1], (offset, (2,), (8,)), value, kind))
    code.outputs = [arrays[-1], *[arrays[1 + k] for k in others]]
    found = simplify.simplified(code)
    verify.check(found)
    assert ((found.op == Op.PACK).sum(), (found.op == Op.PLACE).sum()) == stores
    given = np.arange(6.0)
    np.testing.assert_array_equal(reference.outputs(found, [given]), reference.outputs(code, [given]))


# an index into an axis of 40 elements, and the number of gather instructions
PLACES = {
    "in steps": (np.arange(3, 33, 3), 0),
    "backwards": (np.arange(39, -1, -1), 0),
    "two ranges": (np.r_[0:10, 20:35], 0),
    "in four parts, the first of one element": (np.r_[5, 0:7, 20:30, 9:12], 0),
    "at random": (np.random.default_rng(0).integers(0, 40, 60), 1),
    "regular start, then random": (np.r_[0:30, np.random.default_rng(1).integers(0, 40, 30)], 1),
    "few with one repeated": (np.array([7, 3, 3, 20]), 1),
}


@pytest.mark.parametrize("columns", [(), (1,), (3,), (2, 2)])
@pytest.mark.parametrize("name", PLACES)
def test_indexed_elements_are_views_or_gathers(name, columns):
    index, gathers = PLACES[name]
    x = np.random.default_rng(2).normal(size=(40, *columns))
    program = wg.record(lambda x: np.sum(np.exp(x[index])), x)
    assert (program._listing.op == Op.GATHER).sum() == gathers
    expected = np.exp(x) * np.bincount(index, minlength=40).reshape(-1, *(1 for _ in columns))
    np.testing.assert_allclose(program.grad()(x), expected, rtol=1e-13)
