"""Random programs on scalars, arrays, views and in-place writes, against plain NumPy and the complex step.

A program is a list of instructions, which `run` interprets for any type of `x`: floats, complex or operands.
Array registers may be views of one another, so a write may show in several of them.
"""

import warnings

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wengert as wg
from helpers import assert_rounding, assert_same_bits, complex_step

N = 4
CONSTANTS = np.array([[0.7, -1.3, 0.2, 1.9], [1.0, 1.0, 0.5, -0.4], [0.0, 2.0, -0.0, 1.1]])
MATRIX = np.array(
    [[0.3, -0.2, 0.9, 0.1], [1.1, 0.4, -0.6, 0.2], [0.0, 0.8, 0.5, -0.7], [0.6, 0.0, -0.1, 0.3]]
)
MASKS = np.array([[True, False, True, False], [False, True, True, True], [False] * 4, [True] * 4])
INDICES = [[0, 1, 2, 3], [3, 3, 0, 1], [2, 0, 2, 2], [-1, -2, 0, 1]]
SLICES = [
    (slice(1, None), slice(None, -1)),
    (slice(None, -1), slice(1, None)),
    (slice(None, 2), slice(2, None)),
    (slice(None), slice(None, None, -1)),
    (slice(None, None, 2), slice(1, None, 2)),
    (slice(0, 2), slice(1, 3)),
    (slice(2, 2), slice(0, 0)),
]

UNARY = {
    "negative": lambda a: -a,
    "sin": np.sin,
    "function of cos": lambda a: np.cos(a) * 0.9,
    "tanh": np.tanh,
    "exp of sin": lambda a: np.exp(np.sin(a)),
    "arctan": np.arctan,
    "square": np.square,
    "** 2": lambda a: a**2,
    "** 3": lambda a: 0.5 * a**3,
    "** -1": lambda a: (a * a + 1.5) ** -1,
    "** 1.7": lambda a: (a * a + 1.5) ** 0.3,
    "sqrt": lambda a: np.sqrt(a * a + 0.5),
    "log": lambda a: np.log(a * a + 1.1),
    "2 ** a": lambda a: 2.0 ** np.sin(a),
    "copy": lambda a: +a,
    "1 - a": lambda a: 1 - a,
    "a / 3": lambda a: a / 3,
    "2 / a": lambda a: 2 / (a * a + 1),
}
BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / (b * b + 1),
    "**": lambda a, b: (a * a + 0.7) ** np.sin(b),
    "np.multiply": np.multiply,
    "np.subtract": np.subtract,
}
REDUCTIONS = {
    "sum": np.sum,
    "mean": lambda a: a.mean(),
    "dot": lambda a: np.dot(a, a[::-1]),
    "prod": np.prod,
    "var": lambda a: (a * a).sum() - a.sum() ** 2 / a.size,
    "loop": lambda a: sum(v * v for v in a),
    "builtin": sum,
    "einsum": lambda a: np.einsum("i,j,ij->", a, a, MATRIX),
}
SHAPED = {
    "copy": lambda a: a.copy(),
    "roll": lambda a: np.roll(a, 1),
    "cumsum": lambda a: np.cumsum(a) / 2,
    "matmul": lambda a: MATRIX @ a,
    "vecmat": lambda a: a @ MATRIX,
    "outer": lambda a: np.outer(a, a[::2]).sum(axis=1),
    "take": lambda a: np.take(a, INDICES[1]),
    "fancy": lambda a: a[INDICES[2]],
    "where": lambda a: np.where(MASKS[0], a, a * a),
    "concatenate": lambda a: np.concatenate([a[2:], a[:2] * 2]),
    "reshape": lambda a: a.reshape(2, 2).T.ravel(),
    "transposed product": lambda a: (a.reshape(2, 2) @ a.reshape(2, 2).T).ravel(),
    "broadcast": lambda a: (a[:, None] * a[None, :2]).mean(axis=1),
    "stack": lambda a: np.stack([a, a * a], axis=1)[:, 1],
    "solve": lambda a: np.linalg.solve(MATRIX + 4 * np.eye(N), a),
    "append": lambda a: np.append(a[1:], a[0]),
    "flip": lambda a: np.flip(a) * 1.0,
}
VIEWS = {
    "itself": lambda a: a,
    "reversed": lambda a: a[::-1],
    "ellipsis": lambda a: a[...],
    "through a matrix": lambda a: a.reshape(2, 2).reshape(-1),
    "reversed twice": lambda a: a[::-1][::-1],
    "matrix row": lambda a: a[None, :][0],
}


def augment(op, target, value):
    """Assign augmented to an array, as a statement does."""
    if op == "+":
        target += value
    elif op == "-":
        target -= value
    elif op == "*":
        target *= value
    elif op == "/":
        target /= value * value + 1
    return target


def run(program, x):
    arrays, numbers = [x * 1.0], [x[0], x[N - 1]]
    for name, *operands in program:
        i, j, k, form = operands
        a, b = arrays[i % len(arrays)], arrays[j % len(arrays)]
        s, t = numbers[i % len(numbers)], numbers[j % len(numbers)]
        if name == "array unary":
            arrays.append(UNARY[form](a))
        elif name == "array binary":
            arrays.append(BINARY[form](a, b))
        elif name == "array and number":
            arrays.append(BINARY[form](a, t))
        elif name == "number and array":
            arrays.append(BINARY[form](t, a))
        elif name == "array and constant":
            constant = CONSTANTS[k % 3].copy()
            arrays.append(BINARY[form](a, constant))
            constant[:] = 7.0
        elif name == "constant and array":
            arrays.append(BINARY[form](CONSTANTS[k % 3], a))
        elif name == "clean constant":
            constant = np.full(N, 1.25)
            constant[1] = 0.5
            arrays.append(BINARY[form](a, constant))
            constant *= 3
            arrays.append(np.multiply(constant, b))
        elif name == "number unary":
            numbers.append(UNARY[form](s))
        elif name == "number binary":
            numbers.append(BINARY[form](s, t))
        elif name == "number and literal":
            numbers.append(BINARY[form](s, 0.75) - BINARY[form](2, s))
        elif name == "load":
            numbers.append(a[k])
        elif name == "store":
            a[k] = t
        elif name == "store literal":
            a[k - N] = 0.5
        elif name == "store computed":
            a[k] = a[k - 1] * s + b[k]
        elif name == "augment element":
            a[k] += s * 0.5
            a[-k - 1] *= 1.5
        elif name == "augment array":
            augment(form, a, b)
        elif name == "augment by number":
            augment(form, a, s)
        elif name == "augment slice":
            to, source = SLICES[k]
            augment(form, a[to], b[source])
        elif name == "augment view statement":
            to, source = SLICES[k]
            a[to] += b[source]
        elif name == "store slice":
            to, source = SLICES[k]
            a[to] = b[source]
        elif name == "store broadcast":
            a[SLICES[k][0]] = s
        elif name == "store everything":
            a[:] = b * s
        elif name == "store at indices":
            a[INDICES[k]] = b
        elif name == "add at indices":
            a[INDICES[k]] += b
        elif name == "store at mask":
            a[MASKS[k]] = b[MASKS[k]] * 2
        elif name == "fill":
            a.fill(0.0)
        elif name == "out":
            np.multiply(a, b, out=arrays[k % len(arrays)])
        elif name == "view":
            arrays.append(VIEWS[form](a))
        elif name == "shaped":
            arrays.append(SHAPED[form](a))
        elif name == "array of items":
            arrays.append(np.array([a[1], s * a[2], 0.5, b[k]], dtype=x.dtype))
        elif name == "reduce":
            numbers.append(REDUCTIONS[form](a))
        elif name == "zeros":
            fresh = np.zeros(N, dtype=x.dtype)
            for q in range(k + 1):
                fresh[q] = s * (q + 1)
            arrays.append(fresh)
        elif name == "empty like":
            fresh = np.empty_like(a)
            fresh[:2] = b[2:]
            fresh[2:] = 1.0
            arrays.append(fresh)
        elif name == "rows":
            table = np.zeros((3, N), dtype=x.dtype)
            table[0] = a
            table[1:, :2] = b[2:]
            table[:, k] *= s
            arrays.append(table[k % 3])
            arrays.append(table.sum(axis=0) / 2)
        elif name == "swap":
            a[0], a[k] = a[k], a[0]
        elif name == "branch":
            numbers.append(s * 2 if np.real(s) > np.real(t) else t - 1)
    return np.concatenate([np.stack(numbers), *arrays])


def instructions(name, forms=("",)):
    small = st.integers(0, 6)
    return st.tuples(st.just(name), small, small, st.integers(0, N - 1), st.sampled_from(sorted(forms)))


WRITES = st.one_of(
    instructions("store"),
    instructions("store literal"),
    instructions("store computed"),
    instructions("augment element"),
    instructions("augment array", "+-*/"),
    instructions("augment by number", "+-*/"),
    instructions("augment slice", "+-*"),
    instructions("augment view statement"),
    instructions("store slice"),
    instructions("store broadcast"),
    instructions("store everything"),
    instructions("store at indices"),
    instructions("add at indices"),
    instructions("store at mask"),
    instructions("fill"),
    instructions("out"),
    instructions("swap"),
)
VALUES = st.one_of(
    instructions("array unary", UNARY),
    instructions("array binary", BINARY),
    instructions("array and number", BINARY),
    instructions("number and array", BINARY),
    instructions("array and constant", BINARY),
    instructions("constant and array", BINARY),
    instructions("clean constant", BINARY),
    instructions("number unary", UNARY),
    instructions("number binary", BINARY),
    instructions("number and literal", BINARY),
    instructions("load"),
    instructions("view", VIEWS),
    instructions("shaped", SHAPED),
    instructions("reduce", REDUCTIONS),
    instructions("array of items"),
    instructions("zeros"),
    instructions("empty like"),
    instructions("rows"),
    instructions("branch"),
)
PROGRAMS = st.lists(st.one_of(VALUES, WRITES), min_size=1, max_size=14)
POINTS = st.sampled_from(
    [np.array([0.3, -0.8, 1.1, 0.6]), np.array([-0.4, 0.9, 0.2, -1.2]), np.array([1.0, 0.5, -0.5, 0.1])]
)

EVERY_INSTRUCTION = [
    *[(name, UNARY) for name in ("array unary", "number unary")],
    *[
        (f"{name}", BINARY)
        for name in ("array binary", "array and number", "number and array", "number binary")
    ],
    *[
        (name, BINARY)
        for name in ("array and constant", "constant and array", "clean constant", "number and literal")
    ],
    *[(name, "+-*/") for name in ("augment array", "augment by number", "augment slice")],
    ("view", VIEWS),
    ("shaped", SHAPED),
    ("reduce", REDUCTIONS),
    *[
        (name, ("",))
        for name in (
            "load|store|store literal|store computed|augment element|augment view statement|store "
            "slice|store broadcast|"
            "store everything|store at indices|add at indices|store at mask|fill|out|array of "
            "items|zeros|empty like|rows|"
            "swap|branch"
        ).split("|")
    ],
]


def drawn_evenly(seed, length):
    """Draw a program in which all instructions are equally likely, which hypothesis does not guarantee."""
    rng = np.random.default_rng(seed)
    program = []
    for _ in range(length):
        name, forms = EVERY_INSTRUCTION[rng.integers(len(EVERY_INSTRUCTION))]
        form = sorted(forms)[rng.integers(len(forms))]
        program.append((name, *(int(n) for n in rng.integers(0, 7, 2)), int(rng.integers(N)), form))
    return program


deterministic = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def plain(program, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return run(program, x)


@settings(deterministic, max_examples=300)
@given(PROGRAMS, POINTS)
def test_values_and_jacobians_of_random_programs_are_right(program, x):
    check(program, x)


def test_values_and_jacobians_of_random_programs_agree_with_references():
    checked = 0
    for seed in range(SEEDS):
        program = drawn_evenly(seed, 1 + seed % 25)
        try:
            checked += check(program, np.array([0.3, -0.8, 1.1, 0.6]))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {program}") from error
    assert checked > SEEDS // 2


SEEDS = 400


def check(program, x):
    """Compare value and Jacobian; return False if the values are too large to compare."""
    y = plain(program, x.copy())
    if not np.all(np.abs(y) < 1e6):
        return False
    value, J = wg.jacobian(lambda x: run(program, x), x, value=True)
    assert_same_bits(value, y)
    exact = complex_step(lambda z: plain(program, z), x)
    if not np.all(np.abs(exact) < 1e8):
        return False
    scale = np.abs(exact).max(axis=1, keepdims=True)
    np.testing.assert_allclose(J, exact, rtol=1e-9, atol=1e-10 * max(1.0, np.max(scale, initial=0.0)))
    return True


@settings(deterministic, max_examples=200)
@given(st.lists(WRITES, min_size=3, max_size=12), st.lists(VALUES, max_size=4), POINTS)
def test_pullbacks_of_random_writes_are_reproducible(writes, values, x):
    program = values + writes
    y = plain(program, x.copy())
    if not np.all(np.abs(y) < 1e6):
        return
    value, pullback = wg.vjp(lambda x: run(program, x), x)
    seeds = np.random.default_rng(70).uniform(-1, 1, (3, y.size))
    exact = complex_step(lambda z: plain(program, z), x)
    if not np.all(np.abs(exact) < 1e8):
        return
    first = pullback(seeds[0])
    tolerance = 1e-10 * max(1.0, np.abs(exact).max())
    np.testing.assert_allclose(first, seeds[0] @ exact, rtol=1e-9, atol=tolerance)
    np.testing.assert_allclose(pullback(seeds), seeds @ exact, rtol=1e-9, atol=tolerance)
    assert_same_bits(pullback(seeds[0]), first)
    assert_same_bits(value, y)
    assert_rounding(
        wg.jacobian(lambda x: run(program, x), x, chunk=3), wg.jacobian(lambda x: run(program, x), x)
    )


def check_tangents(program, x):
    """Compare forward mode and second derivatives by every pair of modes; return False if values are too large."""
    y = plain(program, x.copy())
    exact = complex_step(lambda z: plain(program, z), x)
    if not (np.all(np.abs(y) < 1e5) and np.all(np.abs(exact) < 1e6)):
        return False
    f = lambda z: run(program, z)
    v = np.array([0.7, -0.2, 0.4, 1.1])
    scale = max(1.0, np.abs(exact).max())
    value, J = wg.jacobian(f, x, value=True, mode="forward")
    assert_same_bits(value, y)
    np.testing.assert_allclose(J, exact, rtol=1e-9, atol=1e-10 * scale)
    value, tangent = wg.jvp(f, x, v)
    assert_same_bits(value, y)
    np.testing.assert_allclose(tangent, exact @ v, rtol=1e-9, atol=1e-10 * scale)

    step = 1e-4
    moved = [complex_step(lambda z: plain(program, z), x + t * step * v) for t in (1, -1, 2, -2)]
    curvature = (8 * (moved[0] - moved[1]) - (moved[2] - moved[3])) / (12 * step)
    weights = np.random.default_rng(len(program)).uniform(-1, 1, y.size)
    scale = max(1.0, np.abs(curvature).max())
    if scale > 1e5:
        return False
    loss = lambda z: np.sum(run(program, z) * weights)
    ways = {
        "jvp in jacobian": wg.jacobian(lambda z: wg.jvp(loss, z, v)[1], x, mode="forward"),
        "grad in jvp": wg.jvp(wg.grad(loss), x, v)[1],
        "jvp in grad": wg.grad(lambda z: wg.jvp(loss, z, v)[1], x),
        "grad in grad": wg.grad(lambda z: np.sum(wg.grad(loss)(z) * v), x),
        "vjp in vjp": wg.vjp(lambda z: wg.vjp(f, z)[1](weights), x)[1](v),
    }
    for name, found in ways.items():
        np.testing.assert_allclose(found, weights @ curvature, rtol=1e-5, atol=1e-6 * scale, err_msg=name)
        np.testing.assert_allclose(found, ways["grad in grad"], rtol=1e-10, atol=1e-10 * scale, err_msg=name)
    return True


def test_tangents_and_second_derivatives_of_random_programs_agree():
    checked = 0
    for seed in range(SEEDS // 4):
        program = drawn_evenly(seed + 10_000, 1 + seed % 16)
        try:
            checked += check_tangents(program, np.array([0.3, -0.8, 1.1, 0.6]))
        except Exception as error:
            raise AssertionError(f"seed {seed + 10_000}: {program}") from error
    assert checked > SEEDS // 8


@settings(deterministic, max_examples=60)
@given(PROGRAMS, POINTS)
def test_tangents_and_second_derivatives_of_random_programs_are_right(program, x):
    check_tangents(program, x)


@settings(deterministic, max_examples=100)
@given(st.lists(VALUES, min_size=1, max_size=8), POINTS)
def test_single_precision_programs_keep_their_bits(program, x):
    x = x.astype(np.float32)
    y = plain(program, x.copy())
    if not np.all(np.abs(y) < 1e4):
        return
    value, J = wg.jacobian(lambda x: run(program, x), x, value=True)
    assert_same_bits(value, y)
    assert J.dtype == np.float32
    exact = complex_step(lambda z: plain(program, z), x.astype(float))
    if np.all(np.abs(exact) < 1e3):
        np.testing.assert_allclose(J, exact, rtol=2e-2, atol=2e-3 * max(1.0, np.abs(exact).max()))
