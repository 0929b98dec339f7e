"""Callbacks, set-up and solution of nonlinear programs by IPOPT: `wengert.nlp` beside casadi.

``python -m benchmarks.nonlinear_programs`` prints a table for three models of two sizes each.  Both packages evaluate
the same points in alternation, after their values were compared.  Times are medians; the set-up is that of a second
model of the same kind in the process, so that imports do not count.  Both packages run casadi's build of IPOPT; with
``--own``, `wengert.nlp` runs that of ipyopt, an older release.  Needs casadi, and ipyopt for ``--own``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from scipy.optimize import Bounds
from scipy.sparse import coo_array, csc_array

import wengert as wg
from benchmarks import ipopt_library

IPOPT = {"print_level": 0, "sb": "yes", "tol": 1e-8, "max_iter": 500}


class Model(NamedTuple):
    """A problem in NumPy, the same as casadi's expressions, and its start and limits."""

    objective: Callable
    constraints: Callable | None
    x0: np.ndarray
    low: np.ndarray
    high: np.ndarray
    limit: np.ndarray
    in_casadi: Callable


def collocation(n: int) -> Model:
    """Control of the Van der Pol oscillator over n steps of the trapezoidal rule, at least effort."""
    h = 10.0 / n

    def objective(z):
        a, b, u = z.reshape(n + 1, 3).T
        q = a * a + b * b + u * u
        return h * (np.sum(q) - 0.5 * (q[0] + q[-1]))

    def constraints(z):
        a, b, u = z.reshape(n + 1, 3).T
        rate = (1 - b * b) * a - b + u
        c = np.zeros(2 * n + 2)
        c[:n] = a[1:] - a[:-1] - 0.5 * h * (rate[1:] + rate[:-1])
        c[n : 2 * n] = b[1:] - b[:-1] - 0.5 * h * (a[1:] + a[:-1])
        c[2 * n], c[2 * n + 1] = a[0], b[0] - 1.0
        return c

    def in_casadi():
        z = ca.SX.sym("z", 3 * (n + 1))
        a, b, u = z[0::3], z[1::3], z[2::3]
        q = a * a + b * b + u * u
        rate = (1 - b * b) * a - b + u
        c = ca.vertcat(
            a[1:] - a[:-1] - 0.5 * h * (rate[1:] + rate[:-1]),
            b[1:] - b[:-1] - 0.5 * h * (a[1:] + a[:-1]),
            a[0],
            b[0] - 1.0,
        )
        return z, h * (ca.sum1(q) - 0.5 * (q[0] + q[-1])), c

    low, high = np.full((n + 1, 3), -np.inf), np.full((n + 1, 3), np.inf)
    low[:, 0], low[:, 2], high[:, 2] = -0.25, -1.0, 1.0
    return Model(objective, constraints, np.zeros(low.size), low.ravel(), high.ravel(), np.zeros(2 * n + 2), in_casadi)


def membrane(n: int) -> Model:
    """Surface of least area over an obstacle, on a grid of n by n points."""
    h = 1.0 / (n + 1)
    s = np.linspace(0, 1, n + 2)[1:-1]
    obstacle = 0.4 - 4 * ((s - 0.5) ** 2 + (s[:, None] - 0.5) ** 2)

    def objective(z):
        u = np.zeros((n + 2, n + 2))
        u[1:-1, 1:-1] = z.reshape(n, n)
        dx, dy = (u[1:, :-1] - u[:-1, :-1]) / h, (u[:-1, 1:] - u[:-1, :-1]) / h
        return h * h * np.sum(np.sqrt(1 + dx * dx + dy * dy))

    def in_casadi():
        z = ca.SX.sym("z", n * n)
        u = ca.SX.zeros(n + 2, n + 2)
        u[1:-1, 1:-1] = ca.reshape(z, n, n).T
        dx, dy = (u[1:, :-1] - u[:-1, :-1]) / h, (u[:-1, 1:] - u[:-1, :-1]) / h
        return z, h * h * ca.sum1(ca.sum2(ca.sqrt(1 + dx * dx + dy * dy))), ca.SX.zeros(0, 1)

    x0 = np.maximum(obstacle, 0).ravel() + 0.1
    return Model(objective, None, x0, obstacle.ravel(), np.full(n * n, np.inf), np.zeros(0), in_casadi)


def power_flow(n: int) -> Model:
    """Least losses of a grid of n by n buses with lines to its neighbours: generators at every third bus."""
    bus = np.arange(n * n).reshape(n, n)
    i = np.concatenate([bus[:, :-1].ravel(), bus[:-1].ravel()])
    j = np.concatenate([bus[:, 1:].ravel(), bus[1:].ravel()])
    rng = np.random.default_rng(0)
    g, b = rng.uniform(1.0, 2.0, i.size), rng.uniform(-20.0, -10.0, i.size)
    load = rng.uniform(0.0, 0.2, n * n)
    plants = np.arange(0, n * n, 3)
    m, k = n * n, plants.size

    def flows(v, angle, xp):
        d, w = angle[i] - angle[j], v[i] * v[j]
        cos, sin = g * xp.cos(d), b * xp.sin(d)
        gsin, bcos = g * xp.sin(d), b * xp.cos(d)
        ends = (
            g * v[i] ** 2 - w * (cos + sin),
            g * v[j] ** 2 - w * (cos - sin),
            -b * v[i] ** 2 - w * (gsin - bcos),
            -b * v[j] ** 2 + w * (gsin + bcos),
        )
        return ends

    def objective(z):
        p = z[2 * m : 2 * m + k]
        return np.sum(p + 0.1 * p * p)

    def constraints(z):
        v, angle, p, q = z[:m], z[m : 2 * m], z[2 * m : 2 * m + k], z[2 * m + k :]
        from_p, to_p, from_q, to_q = flows(v, angle, np)
        active, reactive = np.zeros(m), np.zeros(m)
        np.add.at(active, i, from_p)
        np.add.at(active, j, to_p)
        np.add.at(reactive, i, from_q)
        np.add.at(reactive, j, to_q)
        active[plants] -= p
        reactive[plants] -= q
        return np.concatenate([active + load, reactive + 0.3 * load, angle[:1]])

    def in_casadi():
        z = ca.SX.sym("z", 2 * m + 2 * k)
        v, angle, p, q = z[:m], z[m : 2 * m], z[2 * m : 2 * m + k], z[2 * m + k :]
        at_i, at_j = v[i.tolist()], v[j.tolist()]
        d, w = angle[i.tolist()] - angle[j.tolist()], at_i * at_j
        ends = (
            g * at_i**2 - w * (g * ca.cos(d) + b * ca.sin(d)),
            g * at_j**2 - w * (g * ca.cos(d) - b * ca.sin(d)),
            -b * at_i**2 - w * (g * ca.sin(d) - b * ca.cos(d)),
            -b * at_j**2 + w * (g * ca.sin(d) + b * ca.cos(d)),
        )
        ones = np.ones(i.size)
        from_line, to_line = (
            ca.DM.triplet(at.tolist(), np.arange(i.size).tolist(), ca.DM(ones), m, i.size) for at in (i, j)
        )
        plant = ca.DM.triplet(plants.tolist(), np.arange(k).tolist(), ca.DM(np.ones(k)), m, k)
        active = from_line @ ends[0] + to_line @ ends[1] - plant @ p + load
        reactive = from_line @ ends[2] + to_line @ ends[3] - plant @ q + 0.3 * load
        return z, ca.sum1(p + 0.1 * p * p), ca.vertcat(active, reactive, angle[0])

    x0 = np.concatenate([np.ones(m), np.zeros(m), np.full(k, load.sum() / k), np.zeros(k)])
    low = np.concatenate([np.full(m, 0.9), np.full(m, -np.pi), np.zeros(k), np.full(k, -2.0)])
    high = np.concatenate([np.full(m, 1.1), np.full(m, np.pi), np.full(k, 2.0), np.full(k, 2.0)])
    return Model(objective, constraints, x0, low, high, np.zeros(2 * m + 1), in_casadi)


class Casadi:
    """casadi's functions, called through buffers, without copies."""

    def __init__(self, model: Model):
        z, f, c = model.in_casadi()
        factor, multipliers = ca.SX.sym("factor"), ca.SX.sym("multipliers", c.numel())
        lagrangian = factor * f + (ca.dot(multipliers, c) if c.numel() else 0)
        self.hessian = _Buffered(ca.Function("h", [z, factor, multipliers], [ca.tril(ca.hessian(lagrangian, z)[0])]))
        self.objective = _Buffered(ca.Function("f", [z], [f]))
        self.gradient = _Buffered(ca.Function("g", [z], [ca.gradient(f, z)]))
        self.constraints = _Buffered(ca.Function("c", [z], [c]))
        self.jacobian = _Buffered(ca.Function("j", [z], [ca.jacobian(c, z)]))
        self.problem = {"x": z, "f": f, "g": c}


class _Buffered:
    def __init__(self, function):
        self.pattern = function.sparsity_out(0)
        self.buffer, self.evaluate = function.buffer()
        self.out = np.zeros(max(1, function.nnz_out(0)))
        self.buffer.set_res(0, memoryview(self.out))

    def __call__(self, *inputs):
        self.inputs = [np.ascontiguousarray(x, dtype=float) for x in inputs]
        for place, x in enumerate(self.inputs):
            self.buffer.set_arg(place, memoryview(x if x.size else np.zeros(1)))
        self.evaluate()
        return self.out

    def matrix(self, *inputs):
        """Return the result as a sparse array."""
        indices = np.array(self.pattern.row()), np.array(self.pattern.colind())
        return csc_array((self(*inputs)[: self.pattern.nnz()].copy(), *indices), shape=self.pattern.shape)


def program_of(model: Model, tier: str) -> Any:
    """Return the nonlinear program after a first call of each callback."""
    limits = () if model.constraints is None else (model.constraints, model.limit, model.limit)
    program = wg.nlp(model.objective, limits, model.x0, Bounds(model.low, model.high), tier=tier)
    for name, further in CALLBACKS:
        getattr(program, name)(model.x0, *(np.ones(program.m) if x == "multipliers" else 1.0 for x in further))
    return program


#: methods of a program, and their arguments after x
CALLBACKS = [
    ("objective", ()),
    ("constraints", ()),
    ("gradient", ()),
    ("jacobian", ()),
    ("hessian", ("multipliers", "factor")),
]


def timed(call: Callable) -> tuple[float, Any]:
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def evaluated(package: Any, x: np.ndarray, multipliers: np.ndarray, is_casadi: bool) -> list:
    """Return what an iteration of an interior-point method asks for."""
    given = (x, np.ones(1), multipliers) if is_casadi else (x, multipliers, 1.0)
    names = ["objective", "gradient"] + ["constraints", "jacobian"] * bool(multipliers.size)
    return [getattr(package, name)(x) for name in names] + [package.hessian(*given)]


def check(program: Any, other: Casadi, x: np.ndarray, multipliers: np.ndarray) -> None:
    """Raise unless both packages have the same values and derivatives."""
    assert np.isclose(program.objective(x), other.objective(x)[0], rtol=1e-12)
    assert np.allclose(program.gradient(x), other.gradient(x), rtol=1e-9, atol=1e-9)
    matrices = [(program.hessian(x, multipliers, 1.0), program.hessianstructure(), other.hessian, (1.0, multipliers))]
    if program.m:
        assert np.allclose(program.constraints(x), other.constraints(x), rtol=1e-9, atol=1e-9)
        matrices.append((program.jacobian(x), program.jacobianstructure(), other.jacobian, ()))
    for values, structure, function, further in matrices:
        expected = function.matrix(x, *further)
        assert abs(coo_array((values, structure), shape=expected.shape) - expected).max() < 1e-9 * abs(expected).max()


def minimised(program: Any, x0: np.ndarray, has_own: bool) -> tuple[np.ndarray, float, int]:
    """Return the solution of a nonlinear program by ipyopt's build of IPOPT or by casadi's."""
    if not has_own:
        return ipopt_library.solve(f"{ca.__path__[0]}/libipopt.so", program, IPOPT)
    import ipyopt

    return ipyopt.Problem(**program.ipyopt(), ipopt_options=IPOPT).solve(x0.copy())


def measure(name: str, make: Callable[[int], Model], n: int, tier: str, count: int, has_own: bool) -> str:
    make_small = make(5)
    program_of(make_small, tier), Casadi(make_small)
    model = make(n)
    setup, program = timed(lambda: program_of(model, tier))
    setup_ca, other = timed(lambda: Casadi(model))
    rng = np.random.default_rng(0)
    points = [model.x0 + 0.01 * rng.standard_normal(program.n) for _ in range(count)]
    multipliers = rng.standard_normal(program.m)
    check(program, other, points[0], multipliers)
    times = [
        [timed(lambda p=p, x=x: evaluated(p, x, multipliers, p is other))[0] for p in (program, other)] for x in points
    ]
    ours, theirs = np.median(times, axis=0)

    solved, (_, value, status) = timed(lambda: minimised(program, model.x0, has_own))
    options = {f"ipopt.{key}": x for key, x in IPOPT.items()} | {"print_time": False}
    setup_of_solver, solver = timed(lambda: ca.nlpsol("s", "ipopt", other.problem, options))
    given = {"x0": model.x0, "lbx": model.low, "ubx": model.high, "lbg": model.limit, "ubg": model.limit}
    solved_ca, found = timed(lambda: solver(**given))
    assert status == 0 and np.isclose(value, float(found["f"]), rtol=1e-6), (value, found["f"])
    total, total_ca = setup + solved, setup_of_solver + solved_ca
    return (
        f"| {name} | {program.n} | {1e3 * ours:.3g} ms | {1e3 * theirs:.3g} ms ({theirs / ours:.2g}x) | "
        f"{1e3 * setup:.3g} ms | {1e3 * setup_ca:.3g} ms ({setup_ca / setup:.2g}x) | "
        f"{total:.3g} s | {total_ca:.3g} s ({total_ca / total:.2g}x) |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", default="auto", choices=["auto", "vm", "llvm"])
    parser.add_argument("--count", type=int, default=20, help="number of points")
    parser.add_argument("--small", action="store_true", help="small models only")
    parser.add_argument("--own", action="store_true", help="run ipyopt's build of IPOPT for wengert.nlp")
    given = parser.parse_args()
    print("| model | variables | callbacks | casadi | set-up | casadi | set-up and IPOPT | casadi |")
    print("|---|---|---|---|---|---|---|---|")
    for name, make, sizes in (
        ("collocation", collocation, (1000, 10_000)),
        ("membrane", membrane, (100, 300)),
        ("power flow", power_flow, (30, 100)),
    ):
        for n in sizes[:1] if given.small else sizes:
            print(measure(name, make, n, given.tier, given.count, given.own), flush=True)


if __name__ == "__main__":
    main()
