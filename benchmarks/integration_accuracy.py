"""Errors of derivatives of solutions of differential equations, in multiples of the relative tolerance.

``python -m benchmarks.integration_accuracy`` prints a table: for each problem and method the largest error of the
Jacobian of the final state in parameters and initial states by forward mode, and of the gradient of a weighted sum of
it by reverse mode, relative to the largest element of each column, and of the gradient.  References are closed forms,
or solutions and derivatives to 20 digits (`benchmarks.integration_references`), which takes some minutes; with
``--check`` they are computed twice, with 20 and with 16 stages, and their relative difference is printed.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy.integrate import solve_ivp

import wengert as wg
from benchmarks import workloads
from benchmarks.bench_integrate import brusselator_rate
from benchmarks.integration_references import added, solution

RTOL, ATOL = 1e-7, 1e-9


def lotka_volterra(t, y, p):
    return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[1] * y[0] * y[1] - p[2] * y[1]])


def robertson(t, y, p):
    a, b, c = p[0] * y[0], p[1] * y[1] * y[2], p[2] * y[1] ** 2
    return np.stack([b - a, a - b - c, c])


def hires(t, y, p):
    light = p[5] * y[5] * y[7]
    return np.stack([
        -p[0] * y[0] + p[1] * y[1] + p[2] * y[2] + 0.0007, p[0] * y[0] - 8.75 * y[1],
        -10.03 * y[2] + p[1] * y[3] + 0.035 * y[4], 8.32 * y[1] + p[0] * y[2] - 1.12 * y[3],
        -1.745 * y[4] + p[1] * y[5] + p[1] * y[6], -light + p[3] * y[3] + p[0] * y[4] - p[1] * y[5] + p[3] * y[6],
        light - p[4] * y[6], -light + p[4] * y[6],
    ])  # fmt: skip


def kepler(t, y, p):
    r = p[0] / (y[0] ** 2 + y[1] ** 2) ** 1.5
    return np.stack([y[2], y[3], -r * y[0], -r * y[1]])


def van_der_pol(t, y, p):
    return np.stack([y[1], p[0] * (1 - y[0] ** 2) * y[1] - y[0]])


def pollution(t, y, p):
    return np.stack(workloads.pollu(y, p))


_POLLU = np.zeros(20)
_POLLU[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007
_HIRES = np.array([1.0, 0, 0, 0, 0, 0, 0, 0.0057])
_GRID = np.linspace(0, 1, 4)
_BRUSSELATOR = np.concatenate([22 * (_GRID * (1 - _GRID)) ** 1.5 + np.zeros((4, 1)), 27 * np.ones((4, 4)) / 8]).ravel()

EXPLICIT, STIFF = ("RK23", "RK45", "DOP853"), ("Radau", "BDF", "LSODA")
EVERY = EXPLICIT + STIFF

#: right-hand side, parameters, initial state, end, and methods
PROBLEMS = {
    "Lotka-Volterra": (lotka_volterra, np.array([1.5, 1.0, 3.0]), np.array([1.0, 1.0]), 10.0, EVERY),
    "Kepler, e = 0.6, 3 revolutions": (
        kepler, np.array([1.0]), np.array([0.4, 0.0, 0.0, 2.0]), 6 * np.pi, EVERY[1:]
    ),
    "Robertson": (robertson, np.array([0.04, 1e4, 3e7]), np.array([1.0, 0.0, 0.0]), 4e3, STIFF),
    "HIRES": (hires, np.array([1.71, 0.43, 8.32, 0.69, 1.81, 280.0]), _HIRES, 321.8122, STIFF),
    "POLLU": (pollution, np.ones(25), _POLLU, 60.0, STIFF),
    "Brusselator, 4 x 4": (brusselator_rate, np.repeat([3.4, 1.0, 0.01, 0.01], 16), _BRUSSELATOR, 11.5, STIFF),
    "Van der Pol, mu = 1e3": (van_der_pol, np.array([1e3]), np.array([2.0, 0.0]), 2e3, STIFF),
}  # fmt: skip


def final(rate, end, states, method, rtol=RTOL, atol=ATOL):
    """Return the final state as a function of parameters and initial state, joined."""

    def solution(x):
        args, start = (x[:-states],), x[-states:]
        return solve_ivp(rate, (0.0, end), start, method, [end], args=args, rtol=rtol, atol=atol).y[:, -1]

    return solution


def impact(x, bounces=10, method="RK45"):
    """Time of the last impact of a ball, of which each restores a part of the speed."""
    drop, restitution, g = x

    def fall(t, y):
        return np.stack([y[1], 0.0 * y[1] - g])

    def height(t, y):
        return y[0]

    height.terminal, height.direction = True, -1
    t, y = 0.0, np.stack([drop, 0.0 * drop])
    for _ in range(bounces):
        found = solve_ivp(fall, (t, t + 20.0), y, method, events=height, rtol=RTOL, atol=ATOL)
        t, y = found.t[-1], np.stack([0.0 * drop, -restitution * found.y[1, -1]])
    return t


def impact_gradient(x, bounces=10):
    """Gradient of the closed form, sqrt(2 drop / g) (1 + 2 sum r^k)."""
    drop, r, g = x
    k = np.arange(1, bounces)
    time = np.sqrt(2 * drop / g)
    total = 1 + 2 * np.sum(r**k)
    return np.array([time * total / (2 * drop), time * 2 * np.sum(k * r ** (k - 1)), -time * total / (2 * g)])


def relative(found, expected, scale=None):
    """Return the largest difference of columns, relative to their largest elements, or to a scale."""
    scale = np.abs(expected).max(axis=0) if scale is None else scale
    return np.max(np.abs(found - expected) / np.where(scale > 0, scale, 1.0))


def references(name, stages):
    """Return the final state and the Jacobian as pairs of arrays; see `benchmarks.integration_references`."""
    rate, p, start, end, _ = PROBLEMS[name]
    return solution(rate, p, start, end, stages)[:2]


def disagreement(found, others):
    """Return the largest relative difference of pairs of arrays."""
    differences = [added(x, [-part for part in y])[0] for x, y in zip(found, others)]
    return max(relative(d, 0.0 * d, np.abs(x[0]).max(axis=0)) for d, x in zip(differences, found))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=[*PROBLEMS, "ball"], help="names of problems")
    parser.add_argument("--check", action="store_true", help="compute references twice")
    options = parser.parse_args()
    warnings.simplefilter("ignore", wg.errors.CompileWarning)
    print("errors in multiples of rtol: value; Jacobian, eager and compiled; gradient, eager and compiled")
    for name in options.problems:
        if name == "ball":
            x = np.array([1.0, 0.8, 9.81])
            for method in EVERY:
                errors = [
                    relative(g(x), impact_gradient(x)) / RTOL
                    for g in (wg.grad(lambda x, m=method: impact(x, method=m)),
                              wg.compile(wg.grad(lambda x, m=method: impact(x, method=m))))
                ]  # fmt: skip
                print(f"  ball, 10 bounces: {method:8}" + "".join(f"{e:10.2g}" for e in errors))
            continue
        rate, p, start, end, methods = PROBLEMS[name]
        x, weights = np.concatenate([p, start]), np.random.default_rng(0).uniform(0.5, 1.5, start.size)
        found = references(name, 20)
        (exact, _), (expected, _) = found
        difference = f": references differ by {disagreement(found, references(name, 16)):.1g}" if options.check else ""
        print(f"{name}{difference}", flush=True)
        for method in methods:
            f = final(rate, end, start.size, method)

            def weighted(x, f=f, weights=weights):
                return weights @ f(x)

            errors = [np.abs(f(x) - exact).max() / np.abs(exact).max()]
            errors += [relative(g(x), expected) for g in (wg.jacobian(f), wg.compile(wg.jacobian(f)))]
            errors += [relative(g(x), weights @ expected) for g in (wg.grad(weighted), wg.compile(wg.grad(weighted)))]
            print(f"  {method:8}" + "".join(f"{e / RTOL:10.2g}" for e in errors), flush=True)


if __name__ == "__main__":
    main()
