"""SLP vectorisation and loop recovery: scalar and vectorised code compute the same, and so do their derivatives."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
from wengert.core.tape.tape import kernel_rows
from wengert.program.ir.opcodes import Op

import wengert as wg
from wengert.program.ir import verify
from wengert.program.ir.reference import outputs
from wengert.program.passes import simplify, vectorise


def fully_vectorised(program, gain=np.inf):
    """Return the program vectorised wherever possible, however small the gain."""
    made = program._with_ir(vectorise.vectorise_scalars(program._listing, gain))
    made._result = program._result
    return made


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def assert_same(f, x, *others):
    """Compare vectorised code with f at the point of the recording and at others, and its derivatives."""
    program = wg.record(f, x)
    made = fully_vectorised(program)
    verify.check(made)
    rng = np.random.default_rng(0)
    for z in (x, *others):
        y = f(z)
        v, w = rng.normal(size=x.shape), rng.normal(size=np.shape(y))
        w = w if np.ndim(w) else np.float64(w)
        close(made(z), y, 1e-12)
        close(outputs(made._listing, [z])[0], y, 1e-12)
        for derived in (made.vjp(), made.jvp()):
            verify.check(derived)
        close(made.vjp()(z, w)[1], wg.vjp(f, z)[1](w), 1e-10)
        close(made.jvp()(z, v)[1], wg.jvp(f, z, v)[1], 1e-10)
        again = fully_vectorised(made.vjp())  # the scalar code that remains in the derivative
        close(again(z, w)[1], wg.vjp(f, z)[1](w), 1e-10)
    return program, made


def close(found, expected, rtol):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected), initial=1.0))


# ---------------------------------------------------------------------------------------------- known loops


def rosenbrock(x):
    s = 0.0
    for i in range(x.size - 1):
        s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2
        s += (1 - x[i]) ** 2
    return s


def bratu(x):
    n = int(np.sqrt(x.size))
    u, F = x.reshape(n, n), np.zeros((n, n))
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            F[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j] + 0.01 * np.exp(u[i, j])
    return F


def bratu_with_borders(x):
    n = int(np.sqrt(x.size))
    u, F = x.reshape(n, n), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            F[i, j] = 0.01 * np.exp(u[i, j]) - 4 * u[i, j]
            if i > 0:
                F[i, j] += u[i - 1, j]
            if i < n - 1:
                F[i, j] += u[i + 1, j]
            if j > 0:
                F[i, j] += u[i, j - 1]
            if j < n - 1:
                F[i, j] += u[i, j + 1]
    return F


def attraction(x):
    q = x.reshape(-1, 3)
    a = np.zeros(q.shape)
    for i in range(len(q)):
        for j in range(i + 1, len(q)):
            d = [q[i, k] - q[j, k] for k in range(3)]
            w = (d[0] ** 2 + d[1] ** 2 + d[2] ** 2 + 0.01) ** -1.5
            for k in range(3):
                a[i, k] -= w * d[k]
                a[j, k] += w * d[k]
    return a


def lorenz(x, steps=3):
    n, x = x.size, x.copy()
    for _ in range(steps):
        d = np.zeros(n)
        for i in range(n):
            d[i] = (x[(i + 1) % n] - x[i - 2]) * x[i - 1] - x[i] + 8.0
        for i in range(n):
            x[i] = x[i] + 0.01 * d[i]
    return x


def matrix_times(x):
    n = int(np.sqrt(x.size))
    A, y = x.reshape(n, n), np.zeros(n)
    for i in range(n):
        for j in range(n):
            y[i] += A[i, j] * A[j, i]
    return y


#: a loop, its size, and the maximum number of instructions after vectorisation, without constants and views
LOOPS = {
    "Rosenbrock": (rosenbrock, 1000, 12),
    "Bratu": (bratu, 32**2, 13),
    "Bratu with borders": (bratu_with_borders, 24**2, 30),
    "n-body": (attraction, 3 * 20, 17),
    "Lorenz-96, three steps": (lorenz, 40, 30),
    "sums of rows": (matrix_times, 20**2, 7),
}


@pytest.mark.parametrize("name", LOOPS)
def test_unrolled_loops_become_few_vector_instructions(name):
    f, size, most = LOOPS[name]
    x = np.random.default_rng(1).uniform(-1, 1, size)
    program, made = assert_same(f, x, x + 0.01)
    counted = [op for op in made._listing.op.tolist() if op not in (Op.CONST, Op.ARRAY, Op.VIEW, Op.INPUT)]
    assert len(counted) <= most, str(made)
    assert len(program) > 20 * len(counted)
    if made._output_shape == ():
        close(made.hvp()(x, x), wg.hvp(f, x, x), 1e-10)


def test_vectorised_program_runs_and_is_pickled():
    x = np.random.default_rng(1).uniform(-1, 1, 500)
    program = wg.record(rosenbrock, x)
    assert len(vectorise.vectorise_scalars(program._listing)) < 30 < len(program)
    for p in (program, pickle.loads(pickle.dumps(program))):
        close(p(x), rosenbrock(x), 1e-12)
        close(p.grad()(x), wg.grad(rosenbrock, x), 1e-11)
        assert len(p.grad()) < 60
    assert np.isnan(program(np.where(x == x[3], np.nan, x)))


def test_unprofitable_code_is_not_vectorised():
    def recurrence(x):
        for i in range(1, x.size):
            x[i] = 0.5 * x[i - 1] + x[i]
        return x[-1]

    for f in (lambda x: recurrence(x.copy()), lambda x: x[0] * x[1] + x[2], lorenz):
        code = wg.record(f, np.linspace(0, 1, 9))._listing
        assert vectorise.vectorise_scalars(code) is code


def test_exact_program_stays_scalar():
    x = np.random.default_rng(1).uniform(-1, 1, 100)
    program = wg.record(rosenbrock, x, exact=True)
    assert program(x) == rosenbrock(x)
    np.testing.assert_array_equal(program.grad()(x), wg.grad(rosenbrock, x))


@pytest.mark.parametrize("n", [2, 7, 8, 9, 64, 511, 512, 513, 1025])
def test_lengths_around_chunk_borders_give_the_same_result(n):
    def f(x):
        F, s = np.zeros(n), 0.0
        for i in range(n):
            F[i] = np.sin(x[i]) * x[i - 1] if i else x[0]
            s -= F[i] * x[n - 1 - i]
        F[0] = s
        return F

    x = np.random.default_rng(n).uniform(-1, 1, n)
    assert_same(f, x, x[::-1].copy())


def test_powers_expanded_to_products_are_not_packed_with_others():
    """Each power in an array of exponents is a call of pow."""

    def energy(x):
        s = 0.0
        for i in range(1, x.size):
            r = x[i] ** 2 + 0.5 * x[i - 1] ** 4 + 1.0
            s += r**-1 - r**3 + np.sqrt(r) ** 0.5 + 0.1 * np.power(r, 7.0) - 0.1 * r**9
        return s

    _, made = assert_same(energy, np.linspace(0.1, 1.0, 40))
    code = made._listing
    powers = [
        code.b[i]
        for i in np.flatnonzero(
            np.isin(code.op, [opcode for name, opcode, *_ in kernel_rows() if name in ("", "power")])
        )
    ]
    exponents = [code.constants[code.a[b]] for b in powers if code.op[b] == Op.CONST]
    assert {-1.0, 0.5, 2.0, 3.0, 4.0} <= {*exponents}


def test_elements_may_be_in_any_order_with_branches():
    order = np.random.default_rng(3).permutation(40)

    def f(x):
        F = np.zeros(40)
        for i, j in enumerate(order):
            F[j] = x[i] * x[order[j]] if i % 3 else -x[j]
        G = np.zeros(40)
        for i in range(40):
            G[order[i]] = F[order[-i]] ** 2 + x[0]
        return G * np.array([x[i] if x[i] > 0 else 0.0 for i in range(40)])

    x = np.random.default_rng(4).uniform(-1, 1, 40)
    assert_same(f, x, x * 1.01)
    with pytest.raises(wg.GuardError):
        fully_vectorised(wg.record(f, x))(-x)


# ---------------------------------------------------------------------------------------------- random loops


class Loops:
    """Generates the source of a function with random loop nests."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.rows = self.r.choice([2, 4])
        self.lines = ["s = 0.0", "y = np.zeros(n)", "z = x.copy()", f"w = x.reshape({self.rows}, -1).copy()"]
        for _ in range(self.r.randint(1, 4)):
            self.r.choice([self.line, self.line, self.plane, self.steps, self.recurrence])()
        last = ["return np.concatenate([y, z, w.ravel(), [s]])", "return s + y[1] * z[2] + np.sum(w) + np.sum(z)"]
        self.lines.append(self.r.choice(last))
        self.source = "def f(x):\n    n = x.size\n" + "".join(f"    {line}\n" for line in self.lines)

    def expression(self, depth, names):
        kind = self.r.random()
        if not depth or kind < 0.25:
            return self.r.choice([*names, f"{self.r.uniform(-2, 2):.2f}"])
        one = self.expression(depth - 1, names)
        if kind < 0.7:
            return f"({one} {self.r.choice('+-*')} {self.expression(depth - 1, names)})"
        return f"{self.r.choice(['np.sin', 'np.cos', 'np.tanh', 'np.abs', '-'])}({one})"

    def line(self):
        shift = self.r.choice([0, 1, -1, 2])
        bounds = self.r.choice(["n", "1, n - 1", "0, n, 2", "2, n, 3"])
        names = ["x[i]", "x[i // 2]", "z[n - 1 - i]", f"y[(i + {shift}) % n]", f"z[(i - {shift}) % n]"]
        self.lines.append(f"for i in range({bounds}):")
        if self.r.random() < 0.3:
            self.lines.append("    if i < 3 or i == n - 2: continue")
        if self.r.random() < 0.3:
            self.lines.append(f"    t = {self.expression(3, names)}")
            names.append("t")
        targets = ["s +=", "s -=", "s = s +", "y[i] =", "y[i] +=", "z[i] =", "y[n - 1 - i] -=", "z[i // 2] +="]
        self.lines.append(f"    {self.r.choice(targets)} {self.expression(3, names)}")

    def plane(self):
        names = ["w[i, j]", "w[i - 1, j]", "w[i + 1, j]", "w[i, j - 1]", "w[i, j + 1]", "x[j]", "w[0, j]"]
        targets = ["s +=", "y[3 * i + j] +=", "w[i, j] =", "y[i] +=", "y[j] -="]
        self.lines += ["for i in range(1, w.shape[0] - 1):", "    for j in range(1, w.shape[1] - 1):"]
        self.lines.append(f"        {self.r.choice(targets)} {self.expression(3, names)}")

    def steps(self):
        names = ["z[i]", "z[i - 1]", "z[(i + 1) % n]", "x[i]"]
        self.lines += [f"for k in range({self.r.randint(2, 4)}):", "    d = np.zeros(n)"]
        self.lines.append(f"    for i in range(n): d[i] = {self.expression(3, names)}")
        new = self.r.choice(["z[i] + 0.1 * d[i]", "0.5 * (z[i] + d[i])"])
        self.lines.append(f"    for i in range(n): z[i] = {new}")

    def recurrence(self):
        right = self.expression(2, ["x[i]", "y[i]"])
        self.lines.append(f"for i in range(1, n): z[i] = 0.5 * np.sin(z[i - 1]) + {right}")


def test_vectorised_random_loops_agree_with_the_function():
    compared = 0
    for seed in range(120):
        loops = Loops(seed)
        scope = {"np": np}
        exec(loops.source, scope)
        x = np.random.default_rng(seed).uniform(-1, 1, loops.r.choice([12, 20, 32, 48]))
        y = scope["f"](x)
        if not np.all(np.abs(y) < 1e6):
            continue
        try:
            program, made = assert_same(scope["f"], x)
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{loops.source}") from error
        compared += len(made) < len(program)
    assert compared > 60


def test_passes_preserve_gathers_and_scatters():
    x = np.random.default_rng(1).uniform(-1, 1, 60)
    made = fully_vectorised(wg.record(attraction, x))
    assert {Op.GATHER, Op.SCATTER} <= set(made._listing.op.tolist())
    code = simplify.simplified(made._listing)
    close(outputs(code, [x])[0], attraction(x), 1e-12)
    assert "gather(v0, v" in str(made)
