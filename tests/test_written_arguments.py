"""Arguments that a function writes into: derivatives work on copies, and the caller's arrays stay as they were."""

import functools
import warnings

import numpy as np
import pytest
from wengert.core.rebind.stores import written_parameters

import wengert as wg
from wengert.errors import CompileWarning, MutatedInputWarning, TracedValueError

pytestmark = pytest.mark.filterwarnings("ignore::wengert.MutatedInputWarning")

A0 = np.array([0.3, 1.1, -0.4, 2.0, 0.7])
B0 = np.array([1.5, -0.2, 0.9, 0.1, 1.2])
W = np.arange(5.0)


def smooth(A, B):
    for _ in range(2):
        B[1:-1] = A[:-2] * A[1:-1] + np.sin(A[2:])
        A[1:-1] = 0.3 * (B[:-2] + B[1:-1] * B[2:])


def loss(A, B):
    smooth(A, B)
    return np.sum(W * A) + np.sum(B**2)


def pure(A, B):
    """The same on copies."""
    A, B = np.copy(A), np.copy(B)
    smooth(A, B)
    return np.sum(W * A) + np.sum(B**2)


def keeps_caller(call, *arrays):
    """Return what a call returns, and check that it leaves its arguments unchanged."""
    given = [np.copy(x) for x in arrays]
    y = call(*given)
    assert all(np.array_equal(x, old) for x, old in zip(given, arrays))
    return y


V = np.array([0.2, -0.5, 1.0, 0.4, -0.3])
OPERATORS = {
    "grad": lambda f: wg.grad(f),
    "grad of the other": lambda f: wg.grad(f, argnums=1),
    "both": lambda f: wg.grad(f, argnums=(0, 1)),
    "value_and_grad": lambda f: wg.value_and_grad(f),
    "forward": lambda f: wg.jacobian(f, mode="forward"),
    "jvp": lambda f: lambda a, b: wg.jvp(f, a, V, args=(b,)),
    "vjp": lambda f: lambda a, b: wg.vjp(f, a, args=(b,))[1](1.0),
    "hessian": lambda f: wg.hessian(f),
    "hvp": lambda f: lambda a, b: wg.hvp(f, a, V, args=(b,)),
    "nested": lambda f: wg.grad(lambda a, b: np.sum(wg.grad(f)(a, b) ** 2)),
    "nested, both levels": lambda f: wg.grad(lambda a, b: wg.grad(f, argnums=1)(a, b) @ V),
}


def flat(y):
    return np.concatenate([np.ravel(part) for part in (y if isinstance(y, tuple) else (y,))])


@pytest.mark.parametrize("name", OPERATORS)
def test_derivatives_work_on_copies(name):
    found = keeps_caller(OPERATORS[name](loss), A0, B0)
    assert np.allclose(flat(found), flat(OPERATORS[name](pure)(A0, B0)), rtol=1e-12)


def test_taylor_works_on_copies():
    found = keeps_caller(lambda a, b: wg.taylor(loss, a, V, 2, args=(b,)), A0, B0)
    assert np.allclose(found, [pure(A0, B0), wg.grad(pure)(A0, B0) @ V, V @ wg.hessian(pure)(A0, B0) @ V / 2])


@pytest.mark.parametrize("tier", ["vm", "auto"])
@pytest.mark.parametrize("name", ["grad", "grad of the other", "both", "hessian", "forward"])
def test_compiled_derivatives_are_compiled_and_work_on_copies(name, tier):
    compiled = OPERATORS[name](wg.compile(loss, tier=tier))
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        for scale in (1.0, 0.9, 1.2, 0.7, 1.1):
            found = keeps_caller(compiled, scale * A0, B0 / scale)
            assert np.allclose(flat(found), flat(OPERATORS[name](pure)(scale * A0, B0 / scale)), rtol=1e-10)
    assert compiled.paths == 1


def test_compiled_function_itself_writes_as_it_does_uncompiled():
    compiled = wg.compile(loss)
    with pytest.warns(CompileWarning, match="writes into an array"):
        compiled(A0.copy(), B0.copy())
    a, b, plain = A0.copy(), B0.copy(), (A0.copy(), B0.copy())
    assert compiled(a, b) == loss(*plain)
    assert np.array_equal(a, plain[0]) and np.array_equal(b, plain[1])


def test_warns_once():
    def f(x, out):
        out[:] = x
        return out @ x

    with pytest.warns(MutatedInputWarning, match="grad.*wrote into its argument; the caller's array was left"):
        keeps_caller(wg.grad(f), A0, B0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wg.grad(f)(A0, B0)


class Model:
    def step(self, x, u):
        u[1:] *= x[:-1]
        return u @ u

    def __call__(self, x, u):
        return self.step(x, u)


def by_keyword(x, *, u):
    u[:] += x
    return u @ u


def of_rest(x, *rest):
    rest[1][:] += x
    return rest[1] @ rest[0]


def in_dict(x, state):
    state["u"][1:] = state["u"][:-1] * x[1:]
    return state["u"] @ x


def in_list(x, us):
    for u in us:
        u[0] = x[0] * x[1]
    return sum(np.sum(u * x) for u in us)


def by_out(x, u):
    np.multiply(x, u, out=u)
    return u @ u


def by_method(x, u):
    u.fill(x[0])
    return u @ x


def by_alias(x, u):
    rows = u.reshape(1, -1)
    rows[0, 2:] = x[2:] * x[:-2]
    return u @ u


def by_closure(x, u):
    def step(k):
        u[k] = x[k] ** 2

    for k in range(3):
        step(k)
    return u @ x


CALLS = {
    "a keyword": lambda x, u: wg.grad(by_keyword)(x, u=u),
    "further arguments": lambda x, u: wg.grad(of_rest)(x, B0, u),
    "a method": lambda x, u: wg.grad(Model().step)(x, u),
    "a callable": lambda x, u: wg.grad(Model())(x, u),
    "a partial": lambda x, u: wg.grad(functools.partial(by_keyword, u=u))(x),
    "a dict": lambda x, u: wg.grad(in_dict)(x, {"u": u}),
    "a list": lambda x, u: wg.grad(in_list)(x, [u]),
    "out=": lambda x, u: wg.grad(by_out)(x, u),
    "a method that writes": lambda x, u: wg.grad(by_method)(x, u),
    "a view": lambda x, u: wg.grad(by_alias)(x, u),
    "an inner function": lambda x, u: wg.grad(by_closure)(x, u),
}


@pytest.mark.parametrize("name", [name for name in CALLS if name != "a callable"])
def test_every_way_to_pass_and_to_write(name):
    def value(x, u):
        return float(VALUES[name](x, np.copy(u)))

    h = 1e-6
    expected = [(value(A0 + h * e, B0) - value(A0 - h * e, B0)) / (2 * h) for e in np.eye(5)]
    assert np.allclose(keeps_caller(CALLS[name], A0, B0), expected, rtol=1e-7, atol=1e-7)


VALUES = {
    "a keyword": lambda x, u: by_keyword(x, u=u),
    "further arguments": lambda x, u: of_rest(x, B0, u),
    "a method": lambda x, u: Model().step(x, u),
    "a partial": lambda x, u: by_keyword(x, u=u),
    "a dict": lambda x, u: in_dict(x, {"u": u}),
    "a list": lambda x, u: in_list(x, [u]),
    "out=": by_out,
    "a method that writes": by_method,
    "a view": by_alias,
    "an inner function": by_closure,
}


def test_an_array_passed_twice_is_one_array():
    def f(x, u, v):
        u[0] = x[0] ** 2
        return v[0] * x[1]

    u = B0.copy()
    assert np.allclose(wg.grad(f)(A0, u, u), [2 * A0[0] * A0[1], A0[0] ** 2, 0, 0, 0])


def test_overlapping_arguments_raise():
    def f(x, u, v):
        u[1] = x[0] ** 2
        return v[0] * x[1]

    with pytest.raises(TracedValueError, match="stored in a plain NumPy array"):
        wg.grad(f)(A0, B0[:3], B0[1:])


def test_plain_values_stay_in_the_copy():
    def f(x, work):
        work *= 2
        return np.sum(x * work)

    assert np.array_equal(keeps_caller(wg.grad(f), A0, B0), 2 * B0)


def test_arguments_that_are_only_read_are_passed_as_they_are():
    seen = []

    def f(x, data):
        F = np.zeros(x.size)
        for i in range(x.size):
            F[i] = x[i] * data[i]
        F += data
        seen.append(data)
        return F @ F

    wg.grad(f)(A0, B0)
    assert seen[0] is B0


@pytest.mark.filterwarnings("ignore::wengert.CompileWarning")
def test_functions_that_are_called_write_into_the_array_of_their_caller():
    def helper(x, u):
        u[0] = x[0] * x[1]

    def f(x):
        u = np.zeros(2)
        helper(x, u)
        wg.compile(helper)(x, u[1:])
        return u[0] * u[1]

    assert np.allclose(wg.grad(f)(A0), [2 * A0[0] * A0[1] ** 2, 2 * A0[0] ** 2 * A0[1], 0, 0, 0])


# The analysis of the code -----------------------------------------------------------------------------------


def _two_names(x, y):
    x = x.copy()
    x *= 2
    z = y.T
    z[...] = 3
    return x


def _only_reads(x, y, c):
    F = np.zeros_like(y)
    for i in range(3):
        F[i] = x[i] * c[i - 1] + y[i]
        F *= 2
    return F


def _in_with(x, y):
    with np.errstate(all="ignore"):
        y[0] = x if x > 0 else -x
    return y


def _in_loop(x, y, k):
    t = 0.0
    for xi in x:
        t += xi * k[0]
    while t > 0:
        y[k[0] if t else 1, 2:3] += t
        t -= 1


def _swapped(n, x, y):
    while n > 0:
        n = n - 1
        x, y = y, x
        y[0] = n


def _by_comprehension(x, y):
    [smooth(x, yi) for yi in y]


def _unpacked(x, y):
    args = (x, y)
    smooth(*args)


def _positional_out(x, y, out):
    np.add(x, y, out)


def _at(x, y):
    np.add.at(y, [1], x)


def _copyto(x, y):
    np.copyto(y, x)
    return np.reshape(y, (3, 2))


def _recursive(x, y, n):
    if n:
        _recursive(y, x, n - 1)
    else:
        y[0] = 1


def _returned(x, y):
    _identity(y)[0] = 1


def _identity(y):
    return y


WRITTEN = [
    (smooth, "A B"), (loss, "A B"), (pure, ""), (_two_names, "y"), (_only_reads, ""), (_in_with, "y"), (_in_loop, "y"),
    (_swapped, "x y"), (_by_comprehension, "x y"), (_unpacked, "x y"), (_positional_out, "out"), (_at, "y"),
    (_copyto, "y"), (_returned, "y"), (by_keyword, "u"), (of_rest, "rest"), (in_dict, "state"), (by_closure, "u"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "names"), WRITTEN, ids=[f.__name__.strip("_") for f, _ in WRITTEN])
def test_parameters_that_code_writes_into(f, names):
    assert [f.__code__.co_varnames[i] for i in written_parameters(f)] == names.split()


def test_recursive_functions_are_inspected_once():
    assert "y" in [_recursive.__code__.co_varnames[i] for i in written_parameters(_recursive)]


def _adds_to_default(x, y=W):
    y[0] = x[0]
    return np.sum(x * y)


def test_single_argument_needs_no_copy():
    def f(x, n=2):
        x[1:] = n * x[:-1]
        return np.sum(x**2)

    x = A0.copy()
    for derivative in (wg.grad(f), wg.grad(wg.compile(f))):
        np.testing.assert_allclose(derivative(x), [10.0 * A0[0], *(8.0 * A0[1:-1]), 0.0])
        np.testing.assert_array_equal(x, A0)


def test_store_into_default_raises_for_a_single_argument():
    with pytest.raises(TracedValueError):
        wg.grad(_adds_to_default)(A0.copy())
    np.testing.assert_array_equal(W, np.arange(5.0))
