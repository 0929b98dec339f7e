"""Gradients of solutions of differential equations: eager, compiled, by differences, and by casadi and jax.

``python -m benchmarks.integration`` prints a table for the problems of `benchmarks.bench_integrate`: the sum of squares
of a solution at given times, differentiated in its parameters, at rtol 1e-7 and atol 1e-5.  Every call has new
parameters.  All gradients are compared with one at tighter tolerances before they are timed.  Casadi (CVODES with its
adjoint) and jax (`jax.experimental.ode.odeint`) take part where they are installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from statistics import median

import numpy as np

import wengert as wg
from benchmarks import workloads
from benchmarks.bench_integrate import CASES, TOLERANCES

#: for each problem, the method of the reference solution
PROBLEMS = {
    "Lotka-Volterra, RK45": "DOP853",
    "Lotka-Volterra, DOP853": "DOP853",
    "pollution, Radau": "Radau",
    "pollution, BDF": "Radau",
    "Brusselator, BDF": "BDF",
}


def reference(f, p, method):
    """Gradient at tolerances of 1e-10."""
    saved = dict(TOLERANCES)
    TOLERANCES.update(rtol=1e-10, atol=1e-12)
    try:
        return wg.record(lambda p: f(p, method), p).grad()(p)
    finally:
        TOLERANCES.update(saved)


def differences(f):
    """Forward differences, one solution per parameter."""

    def gradient(p):
        y = f(p)
        return np.array([(f(p + step) - y) / 1e-6 for step in 1e-6 * np.eye(p.size)])

    return gradient


def in_casadi(name):
    """Return the gradient by CVODES, from the right-hand side on casadi's symbols; None for the grid."""
    import casadi as ca

    if name.startswith("Lotka"):
        y, p = ca.SX.sym("y", 2), ca.SX.sym("p", 3)
        rate = ca.vertcat(p[0] * y[0] - p[1] * y[0] * y[1], p[1] * y[0] * y[1] - p[2] * y[1])
        start, times = np.ones(2), np.linspace(0.0, 10.0, 21)
    elif name.startswith("pollution"):
        y, p = ca.SX.sym("y", 20), ca.SX.sym("p", 25)
        rate = ca.vertcat(*workloads.pollu([y[i] for i in range(20)], [p[i] for i in range(25)]))
        start, times = np.zeros(20), np.linspace(0.0, 60.0, 11)
        start[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007
    else:
        return None
    options = {"reltol": TOLERANCES["rtol"], "abstol": TOLERANCES["atol"], "max_num_steps": 100000}
    run = ca.integrator("run", "cvodes", {"x": y, "p": p, "ode": rate}, 0.0, times[1:], options)
    q = ca.MX.sym("q", p.numel())
    found = ca.sumsqr(run(x0=start, p=q)["xf"]) + float(np.sum(start**2))
    gradient = ca.Function("gradient", [q], [ca.gradient(found, q)])
    return lambda p: np.asarray(gradient(p)).ravel()


def in_jax(name):
    """Return the gradient by `odeint` of jax, an adaptive explicit method with a continuous adjoint."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from jax.experimental.ode import odeint

    if not name.startswith("Lotka"):
        return None

    def rate(y, t, p):
        return jnp.array([p[0] * y[0] - p[1] * y[0] * y[1], p[1] * y[0] * y[1] - p[2] * y[1]])

    def loss(p):
        return jnp.sum(odeint(rate, jnp.ones(2), jnp.linspace(0.0, 10.0, 21), p, **TOLERANCES) ** 2)

    gradient = jax.jit(jax.grad(loss))
    return lambda p: np.asarray(gradient(p))


def measured(gradients, p, expected, rounds):
    """Return for each gradient the first call, the median of later ones in alternation, and its relative error."""
    random, first, times, errors = np.random.default_rng(0), {}, {}, {}
    for name, gradient in gradients.items():
        start = time.perf_counter()
        found = gradient(p)
        first[name] = time.perf_counter() - start
        errors[name] = np.abs(found - expected).max() / np.abs(expected).max()
        times[name] = []
        gradient(p * (1 + 1e-3 * random.random(p.size)))
    for _ in range(rounds):
        q = p * (1 + 1e-3 * random.random(p.size))
        for name, gradient in gradients.items():
            start = time.perf_counter()
            gradient(q)
            times[name].append(time.perf_counter() - start)
    return {name: (first[name], median(times[name]), errors[name]) for name in gradients}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=[*PROBLEMS], help="names of problems")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    for name in options.problems:
        f, p, method = CASES[name]

        def value(p, f=f, method=method):
            return f(p, method)

        gradients = {"solution only": lambda p: np.full(p.size, value(p)), "eager": wg.grad(value)}
        for tier in ("vm", "llvm"):
            gradients[f"compiled, {tier}"] = wg.compile(wg.grad(value), tier=tier)
        if p.size <= 25:
            gradients["differences"] = differences(value)
        for module, make in (("casadi", in_casadi), ("jax", in_jax)):
            gradient = make(name) if importlib.util.find_spec(module) else None
            if gradient is not None:
                gradients[module] = gradient
        found = measured(gradients, p, reference(f, p, PROBLEMS[name]), options.rounds)
        print(f"{name}, {p.size} parameters")
        for way, (first, later, error) in found.items():
            shown = "" if way == "solution only" else f"  relative error {error:.1e}"
            print(f"  {way:16} first {1e3 * first:9.2f} ms  later {1e3 * later:9.3f} ms{shown}")


if __name__ == "__main__":
    main()
