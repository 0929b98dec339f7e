"""Stores of traced values into new arrays that only a rerun of the derivative recognises."""

import collections
import contextlib
import copy
import dataclasses
import functools
import threading
import types
import warnings
import weakref

import numpy as np
import pytest
import scipy.optimize
from scipy.integrate import solve_ivp

import wengert as wg
from helpers import DIFFERENCES, central_differences
from wengert.core.operands import var
from wengert.core.rebind import new_arrays
from wengert.core.rebind.registration import forget_plans

T = np.linspace(0.1, 1.0, 3)
MATRIX = np.arange(9.0).reshape(3, 3) / 7 + np.eye(3)
ROWS = [T, T + 1]
TABLE = {"rho": np.array([1.0, 2.0, 3.0]), "mu": np.array([0.5, 0.25, 0.125])}
X = np.array([0.3, 0.7, 1.1])


@pytest.fixture(autouse=True)
def unknown():
    """Forget the lines that other tests have found."""
    new_arrays._lines.clear()
    new_arrays._failures.clear()
    forget_plans()


# Programs ---------------------------------------------------------------------------------------------------


def initial():
    return {"T": np.linspace(1.0, 2.0, 5) ** 2, "q": np.sqrt(np.arange(1.0, 6.0))}


def heat_in_a_rod(x):
    state = initial()
    for k in range(3):
        state["T"][1:-1] += x[0] * (state["T"][2:] - 2 * state["T"][1:-1] + state["T"][:-2])
        state["T"][0] = x[1]
        state["q"][k] = x[2] * state["T"][k]
    return state["T"] * state["q"]


class Advection:
    def __init__(self, n):
        self.u = np.sin(np.linspace(0, 1, n))
        self.sums = []

    def step(self, a):
        old = self.u.copy()
        self.u[1:] = old[1:] - a * (old[1:] - old[:-1])
        self.u[0] = a * a
        self.sums.append(self.u.sum())


def advection(x):
    solver = Advection(6)
    for _ in range(4):
        solver.step(0.3 * x[0])
    return solver.u * solver.sums[-1] + x[1]


@dataclasses.dataclass
class Bodies:
    position: np.ndarray
    velocity: np.ndarray


def at_rest():
    return Bodies(np.arange(3) + 0.1, np.cos(np.arange(3.0)))


def leapfrog(x):
    bodies = at_rest()
    bodies.velocity[:] = bodies.velocity + x
    for _ in range(3):
        bodies.velocity[0] -= 0.05 * x[1] * bodies.position[0]
        bodies.position[:] += 0.1 * bodies.velocity
    return bodies.position


def runge_kutta_stages(x):
    k, y = [np.exp(-T) for _ in range(4)], T * 1
    for i in range(4):
        k[i][:] = -x * (y + (0.05 * k[i - 1] if i else 0))
    return y + 0.1 / 6 * (k[0] + 2 * k[1] + 2 * k[2] + k[3])


def add_element(stiffness, i, element):
    stiffness[i : i + 2, i : i + 2] += element


def finite_elements(x):
    stiffness = np.outer(T, T)
    for i in range(2):
        add_element(stiffness, i, x[i] * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    stiffness[0, 0] += 1.0 + x[2] ** 2
    return np.linalg.solve(stiffness + np.eye(3), T)


def tridiagonal(x):
    a, b, c, d = T - 0.5, T + 4, T - 0.25, T / 1
    b[:] = b + x
    for i in range(1, 3):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    out = d / b
    for i in (1, 0):
        out[i] = (d[i] - c[i] * out[i + 1]) / b[i]
    return out


def parts_of_one_array(x):
    low, high = np.split(np.linspace(0, 1, 6), 2)
    p, q, r = np.hsplit(MATRIX * 2, 3)
    low[0], high[1], p[0, 0], q[1, 0], r[2, 0] = x[0], x[1] * x[2], x[0], x[1], x[2]
    return low * high + (p * q + r).ravel()


def factors(x):
    values, vectors = np.linalg.eigh(MATRIX + MATRIX.T)
    found = np.linalg.svd(MATRIX)
    values[0], vectors[0, :], found.S[1] = x[0], x, x[1]
    return vectors @ values + found.U @ (found.S * x)


def dictionaries(x):
    halved, sums = {name: row / 2 for name, row in TABLE.items()}, collections.defaultdict(lambda: T + 1)
    halved["rho"][0], halved["mu"][1] = x[0], x[1]
    for key in "aba":
        sums[key][1] += x[1]
    return halved["rho"] * halved["mu"] * sums["a"] * sums["b"]


def queue(x):
    last = collections.deque([T * 1, T * 2], maxlen=2)
    last[0][0] = x[0]
    last.append(last[0] * x)
    last[-1][2] = x[2]
    return last[0] * last[1]


class Grid:
    n = 3

    @property
    def widths(self):
        return np.diff(np.linspace(0, 1, self.n + 1))

    @classmethod
    def make(cls):
        return cls()

    @staticmethod
    def weights():
        return np.hanning(5)[1:-1]

    def fields(self):
        return self.widths, self.weights()


def properties(x):
    grid = Grid.make()
    widths, weights, fields = grid.widths, grid.weights(), grid.fields()
    widths[0], fields[0][1], fields[1][2] = x
    return widths * fields[0] * fields[1] * weights


def waves(n):
    for i in range(n):
        yield np.sin(T * i)


def generators(x):
    total, found = 0.0, []
    for i, u in enumerate(waves(3)):
        u[i] = x[i]
        total = total + u * u
    for u, c in zip(waves(3), x):
        u[1] = c
        found.append(u)
    a, b = waves(2)
    a[0] = x[1]
    return np.concatenate([total * a + b, *found])


def functions_of_functions(x):
    first, second = list(map(np.exp, ROWS))
    u, v = functools.reduce(np.add, [T, T, T]), functools.partial(np.multiply, T)(2.0)
    first[0], second[1], u[2], v[0] = x[0], x[1], x[2], x[1]
    return first * second * u * v


def closures(x):
    buffer, later = [T * 3][0], None

    def put(i, value):
        buffer[i] = value

    def make():
        nonlocal later
        later = T * 2

    def fill(*buffers, **named):
        for i, each in enumerate((*buffers, *named.values())):
            each[i] = x[i]

    put(0, x[0])
    put(1, x[1] ** 2)
    make()
    later[1] = x[2]
    u, v = T * 1, -T
    fill(u, v=v)
    return buffer * later * u * v


def choices(x):
    u = T * 2 if x[0] > -5 else T
    (T * 2 if x[0] < -5 else u)[1] = x[1]
    if (v := T * 4)[0] < 3:
        v[0] = x[0]
    w = None
    w = w or [T * 5, T]
    w[0][2] = x[2]
    return u * v * w[0]


def starred(x):
    first, *rest = [T * k for k in range(1, 4)]
    first[0], rest[0][1], rest[-1][2] = x
    return first * rest[0] * rest[1]


def keyword_arguments(x):
    def sums(**rows):
        return {name: np.cumsum(row) for name, row in rows.items()}

    found = sums(a=T, b=T * 2)
    found["a"][0], found["b"][1] = x[0], x[1]
    return found["a"] * found["b"]


def results_given_as_arguments(x):
    u, v, w = np.exp(T), np.exp(-T), [T * 0, T * 1]
    np.multiply(x, 2.0, out=u)
    np.add(u, x, out=v)
    np.copyto(w[0], x)
    w[1].fill(x[0])
    u += x
    v *= w[0]
    return u * v * w[1]


def results_of_numpy(x):
    a, b = np.where(T > 0.5, 1.0, 2.0), np.clip(T, 0.2, 0.8)
    (c, d), (e, f) = np.meshgrid(T, T), np.gradient(MATRIX)
    g = [np.fft.fft(T), np.interp(T, [0, 1], [1, 3]), np.polyval([1, 2], T), np.sort(T), np.tril(MATRIX)]
    a[0], b[1], c[0, 1], d[2, 2], e[0, 0], f[1, 1] = *x, *x
    g[0][1], g[1][0], g[2][1], g[3][2], g[4][1, 1] = *x, x[0], x[1]
    return (c * d + e * f) @ (a * b * np.abs(g[0]) ** 2 * g[1]) + g[4] @ (g[2] * g[3])


def random_numbers(x):
    rng = np.random.default_rng(3)
    u, v = rng.normal(size=3), rng.uniform(size=3)
    u[0], v[1] = x[0], x[1]
    return u * v


def views_of_new_arrays(x):
    (m,) = [MATRIX * 2]
    row = m[1]
    row[0], m.T[2], m.flat[4], m.reshape(-1)[0] = x[0], x, x[1], x[2]
    return m.ravel()


@contextlib.contextmanager
def scratch():
    yield T * 2


def blocks(x):
    buffers = []
    with scratch() as u, contextlib.nullcontext(T * 3) as v:
        u[0], v[1] = x[0], x[1]
    try:
        buffers.append(T * 2)
        raise KeyError
    except KeyError:
        buffers[0][1] = x[1]
    finally:
        buffers.append(T * 3)
    match {"k": buffers, "l": T * 4}:
        case {"k": [p, q], "l": r}:
            q[2], r[0] = x[2], x[0]
    return u * v * p * q * r


class Allocating:
    def allocate(self):
        return T * 1, T * 2


class Deriving(Allocating):
    def __init__(self, x):
        self.x = x

    def allocate(self):
        a, b = super().allocate()
        a[0] = self.x[0]
        return a, b


def inherited(x):
    a, b = Deriving(x).allocate()
    b[1] = x[1]
    return a * b


def best_candidate(x):
    best = None
    for each in [T * k for k in (1, 2, 3)]:
        each[0] = x[0]
        if best is None or each.sum() < best.sum():
            best = each
    best[1] = x[1]
    return best * x


def recursion(x):
    def rows(k):
        if k == 0:
            return [T * 1]
        found = rows(k - 1)
        found.append(found[-1] * 2)
        found[-1][0] = x[k % 3]
        return found

    return sum(rows(3))


Pair = collections.namedtuple("Pair", "u v")


def holders(x):
    space, pair, held = types.SimpleNamespace(a=T * 2), Pair(T * 1, T * 2), np.empty(2, dtype=object)
    held[0] = T * 2
    held[0][0] = x[0]
    space.a[1:] *= x[1:]
    space.a -= x
    pair.u[0] = x[0]
    pair = pair._replace(v=T * 3)
    pair.v[1] = x[1]
    return space.a * pair.u * pair.v * held[0]


def default_arguments(x):
    def scaled(u=None):
        u = T * 2 if u is None else u
        u[0] = x[0]
        return u

    return scaled() * scaled(T * 7)


def rotated(x, angle):
    return np.array([[0.6, -0.8], [0.8, 0.6]]) @ (
        [x[0], angle]
    )


def lists_as_operands(x):
    total = MATRIX @ [x[0], x[1], 2.0] - T * (x[2], 1.0, x[0])
    total += [*rotated(x, x[1]), x[2] ** 2]
    if any(T * 0 > [x[0], x[1], x[2]]):
        return total
    return [[x[0], 1.0, x[1]], [x[2], 0.5, 2.0]] @ MATRIX @ total / [x[1], 4.0]


PROGRAMS = [
    heat_in_a_rod, advection, leapfrog, runge_kutta_stages, finite_elements, tridiagonal, parts_of_one_array, factors,
    dictionaries, queue, properties, generators, functions_of_functions, closures, choices, starred,
    keyword_arguments, results_given_as_arguments, results_of_numpy, random_numbers, views_of_new_arrays, blocks,
    inherited, best_candidate, recursion, holders, default_arguments,
    lists_as_operands,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("way", ["reverse", "forward", "compiled"])
def test_traced_values_can_be_stored_in_new_arrays(f, way):
    derivative = wg.jacobian(wg.compile(f)) if way == "compiled" else wg.jacobian(f, mode=way)
    before = [T.copy(), MATRIX.copy(), TABLE["rho"].copy()]
    for x in (X, X[[1, 2, 0]], X):
        np.testing.assert_allclose(derivative(x), central_differences(f, x), rtol=DIFFERENCES, atol=DIFFERENCES)
    for array, old in zip((T, MATRIX, TABLE["rho"]), before):
        np.testing.assert_array_equal(array, old)


SIGNS = "+ - * / // % ** @ < <= == != > >=".split()
LISTS = ["[x[0], x[1]]", "(x[0], 2.0)", "[[x[0], 1.0], [2.0, x[1]]]", "[x, x]"]
PLAIN = {"array": "A", "integers": "np.arange(1, 3)", "new": "np.ones(2)", "traced": "x", "scalar": "np.array(2.0)"}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("kind", PLAIN)
def test_operators_make_arrays_of_lists_that_hold_traced_values(kind, sign):
    x = np.array([0.7, 1.3])
    for items in LISTS[kind == "scalar" and sign == "@" and len(LISTS) :]:
        for left, right in ((PLAIN[kind], items), (items, PLAIN[kind])):
            space = {"np": np, "A": np.array([[1.0, 2.0], [3.0, 4.0]])}
            exec(f"def f(x): return ({left} {sign} {right}) * 1.0", space)
            for f in (space["f"], wg.compile(space["f"])):
                np.testing.assert_allclose(f(x), space["f"](x))
                np.testing.assert_allclose(
                    wg.jacobian(f)(x), central_differences(space["f"], x), rtol=DIFFERENCES, atol=DIFFERENCES
                )
            np.testing.assert_allclose(wg.vmap(space["f"])(x[None])[0], space["f"](x))


def test_list_that_meets_a_scalar_of_integers_is_repeated():
    assert wg.grad(lambda x: sum([x, 2.0] * np.int64(2)))(1.0) == 2.0
    assert wg.grad(lambda x: sum([x, 2.0] + [x]))(1.0) == 2.0


def filled(x):
    u, v = T * 2, T * 3
    u[0], v[1] = x[0] ** 2, x[1] * x[2]
    return u * v


def total(x):
    return np.sum(filled(x) * filled(x))


def columns(product):
    return np.stack([product(row) for row in np.eye(3)], axis=-1)


DERIVATIVES = {
    "vjp": (filled, lambda: np.stack([wg.vjp(filled, X)[1](row) for row in np.eye(3)])),
    "jvp": (filled, lambda: columns(lambda v: wg.jvp(filled, X, v)[1])),
    "taylor": (filled, lambda: columns(lambda v: wg.taylor(filled, X, v, 2)[1])),
    "linearize": (filled, lambda: wg.linearize(filled, X)[1] @ np.eye(3)),
    "sparse": (filled, lambda: wg.jacobian(filled, sparse=True)(X).toarray()),
    "compiled function": (filled, lambda: wg.jacobian(wg.compile(filled))(X)),
    "batch": (filled, lambda: wg.vmap(wg.jacobian(filled))(X[None])[0]),
    "in a batch": (filled, lambda: wg.jacobian(lambda x: wg.vmap(filled)(x[None])[0])(X)),
    "hessian": (wg.grad(total), lambda: wg.hessian(total)(X)),
    "compiled hessian": (wg.grad(total), lambda: wg.hessian(wg.compile(total))(X)),
    "hvp": (wg.grad(total), lambda: columns(lambda v: wg.hvp(total, X, v))),
    "nested": (wg.grad(total), lambda: wg.jacobian(wg.grad(total))(X)),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_all_derivatives_are_rerun(name):
    f, derivative = DERIVATIVES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = derivative()
    np.testing.assert_allclose(found, central_differences(f, X), rtol=DIFFERENCES, atol=DIFFERENCES)


def test_recorded_and_compiled_values():
    np.testing.assert_array_equal(wg.record(filled, X)(2 * X), filled(2 * X))
    compiled = wg.compile(filled)
    for x in (X, 2 * X):
        np.testing.assert_array_equal(compiled(x), filled(x))
    assert compiled.paths == 1


def test_function_runs_again_once():
    runs = []

    def f(x):
        runs.append(x.size)
        return filled(x)

    for mode in ("reverse", "forward", "auto"):
        wg.jacobian(f, mode=mode)(X)
    assert len(runs) == 4


@pytest.mark.parametrize("is_raised", [False, True])
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_error_that_the_function_catches_leads_to_a_rerun(is_raised, wrap):
    def f(x):
        try:
            return filled(x)
        except TypeError:
            if is_raised:
                raise ValueError("not a number") from None
            return 0 * x

    for mode in ("reverse", "forward"):
        found = wg.jacobian(wrap(f), mode=mode)(X)
        np.testing.assert_allclose(found, central_differences(f, X), rtol=DIFFERENCES, atol=DIFFERENCES)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.filterwarnings("ignore::wengert.errors.MutatedInputWarning")
def test_rerun_starts_from_the_given_arguments(mode):
    def f(x, w):
        w[1] += 1.0
        x[0] += 1.0
        return filled(x) * w

    x, w = X.copy(), X.copy()
    found = wg.jacobian(f, mode=mode)(x, w)
    exact = central_differences(lambda x: f(x.copy(), X.copy()), X)
    np.testing.assert_allclose(found, exact, rtol=DIFFERENCES, atol=DIFFERENCES)
    np.testing.assert_array_equal(np.concatenate([x, w]), np.concatenate([X, X]))


def test_error_of_an_inner_derivative_reruns_the_outermost_one():
    def f(x, catches):
        (buffer,) = [T * 2]

        def g(y):
            buffer[0] = x[0]
            return np.sum(filled(y) * buffer * x)

        try:
            return wg.grad(g)(x)
        except TypeError:
            if not catches:
                raise
            return x

    for catches in (False, True):
        new_arrays._lines.clear()
        forget_plans()
        exact = central_differences(lambda x: f(x, catches), X)
        np.testing.assert_allclose(wg.jacobian(f)(X, catches), exact, rtol=DIFFERENCES, atol=DIFFERENCES)


def test_equations_of_solvers():
    def residual(u, p):
        r, s = T * 1, T * 2
        r[:], s[0] = u**3 - p, u[0]
        return r + 0 * s

    def rhs(t, y):
        d, e = T * 0, T * 2
        d[:], e[0] = -y * e, y[0]
        return d + 0 * e

    exact = np.diag(X ** (-2 / 3) / 3)
    for wrap in (lambda f: f, wg.compile):
        root = wg.jacobian(wrap(lambda p: scipy.optimize.root(lambda u: residual(u, p), np.ones(3)).x))
        np.testing.assert_allclose(root(X), exact, rtol=1e-6, atol=1e-6)
    flow = wg.jacobian(lambda y: solve_ivp(rhs, (0, 1), y, rtol=1e-9, atol=1e-9).y[:, -1])
    np.testing.assert_allclose(flow(X), np.diag(np.exp(-2 * T)), rtol=1e-6, atol=1e-6)


def test_reruns_in_threads():
    found = []

    def work(k):
        def f(x):
            return filled(x) + (T * k)[::-1] * x

        exact = central_differences(f, X)
        for _ in range(5):
            new_arrays._lines.clear()
            found.append(np.allclose(wg.jacobian(f)(X), exact, rtol=1e-5))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [True] * 30
    assert not new_arrays._reruns


def test_only_the_lines_that_need_it_are_prepared_anew():
    kinds = []

    def f(x):
        table, (u, v) = np.exp(T), halves()
        kinds.append(type(table).__name__)
        holder.append(table)
        u[0] = x[0]
        return u * v * table

    def halves():
        return T / 2, T * 2

    holder = []
    for _ in range(2):
        wg.jacobian(f)(X)
    first = halves.__code__.co_firstlineno
    assert new_arrays._lines == {__file__: {first + 1}}
    assert type(holder[-1]) is np.ndarray


# Arrays that are not new ------------------------------------------------------------------------------------

CACHE = {2: T * 2, 3: T * 3}
HELD = [T * 2]
DEFAULT = np.full(3, 2.0)


class Model:
    table = T * 3

    def __init__(self):
        self.grid = T * 4

    def get(self):
        return self.grid

    def by_attribute(self, x):
        self.grid[0] = x[0]
        return self.grid * x

    def by_class(self, x):
        self.table[0] = x[0]
        return self.table * x

    def by_method(self, x):
        grid = self.get()
        grid[0] = x[0]
        return grid


MODEL = Model()


def from_a_cache(k):
    if k not in CACHE:
        CACHE[k] = T * k
    return CACHE[k]


def of_a_global(x):
    T[0] = x[0]
    return T * x


def of_views(x):
    v, w = T[1:], T.ravel()
    v[0], w[0] = x[0], x[1]
    return v * w[:2]


def of_a_cache(x):
    a, b = from_a_cache(2), from_a_cache(3)
    a[0] = x[0]
    return a * b


def of_a_list(x):
    (a,) = copy.copy(HELD)
    a[0] = x[0]
    return a


def of_a_default(x, a=DEFAULT):
    a[0] = x[0]
    return a * x


def of_rows(x):
    for row in MATRIX:
        row[0] = x[0]
    return MATRIX.ravel()


def of_no_copies(x):
    a, b = np.asarray(T), np.atleast_1d(HELD[0])
    a[0], b[0] = x[0], x[1]
    return a * b


def caught(x):
    with contextlib.suppress(TypeError):
        T[0] = x[0]
    return T * x


NOT_NEW = [
    of_a_global, of_views, of_a_cache, of_a_list, of_a_default, of_rows, of_no_copies, caught, MODEL.by_attribute,
    MODEL.by_class, MODEL.by_method, lambda x: add_element(MATRIX, 0, x[0]),
]  # fmt: skip


@pytest.mark.parametrize("f", NOT_NEW)
@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_arrays_that_something_else_refers_to_are_refused_and_unchanged(f, mode, wrap):
    arrays = [T, *CACHE.values(), *HELD, DEFAULT, MATRIX, Model.table, MODEL.grid]
    before = [array.copy() for array in arrays]
    for _ in range(5):
        with pytest.raises(wg.TracedValueError, match="cannot be stored in a plain NumPy array"):
            wg.jacobian(wrap(f), mode=mode)(X)
    for array, old in zip(arrays, before):
        np.testing.assert_array_equal(array, old)
    assert all(type(array) is np.ndarray for array in (*CACHE.values(), *HELD))
    assert not new_arrays._lines


def test_refused_function_is_not_rerun_again_and_again():
    runs = []

    def f(x):
        runs.append(1)
        T[0] = x[0]
        return T

    for _ in range(20):
        with pytest.raises(wg.TracedValueError):
            wg.grad(f)(X)
    assert len(runs) < 25


def test_first_error_is_raised_if_a_rerun_fails_otherwise():
    runs = []

    def f(x):
        runs.append(1)
        if len(runs) > 1:
            raise ValueError("the second run")
        return filled(x)

    with pytest.raises(wg.TracedValueError, match="plain NumPy array"):
        wg.grad(f)(X)


def test_iterator_that_the_first_run_has_advanced_is_not_used_again():
    def f(x, rows):
        u, v = next(rows) / 2, next(rows) / 2
        u[0], v[1] = x[0], x[1]
        return np.sum(u * v)

    rows = iter([*ROWS, *ROWS])
    with pytest.raises(wg.TracedValueError, match="plain NumPy array"):
        wg.grad(f)(X, rows)
    assert len([*rows]) == 2


def test_another_thread_may_end_its_rerun_while_an_array_is_filled(monkeypatch):
    get, is_storing = weakref.WeakKeyDictionary.get, []

    def get_at_the_end(self, *args):
        found = get(self, *args)
        if is_storing:
            var.watch_filled(None)
        return found

    def f(x):
        y = np.zeros(1)
        var.note_origin(y, ("model.py", 1))
        is_storing.append(True)
        y[0] = x
        return y[0]

    var.watch_filled(set())
    monkeypatch.setattr(weakref.WeakKeyDictionary, "get", get_at_the_end)
    assert wg.grad(f)(1.0) == 1.0
