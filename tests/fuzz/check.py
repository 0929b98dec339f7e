"""Compare one program in every mode: values bit for bit, derivatives with its twin up to rounding.

The tolerance is relative to the largest derivative of the same result. If the program itself amplifies rounding
errors, which running the twin with noise shows, the tolerance grows accordingly, and the program is counted.
"""

from __future__ import annotations

import warnings

import numpy as np

import wengert as wg
from wengert.errors import GuardError, TracedValueError, UnsupportedFunctionError

from . import twins

#: relative tolerances of first and second derivatives, in double and single precision
FIRST, SECOND = {False: 1e-12, True: 3e-4}, {False: 1e-10, True: 3e-2}
STEP = 1e-25

#: refusals with a reason, by words of the error message
REFUSED = {
    "does not see it": "refused: writes into an array that NumPy made of constants",
    "overwrites elements before it reads them": "refused: reads what it has overwritten",
}

REFUSALS = (TracedValueError, UnsupportedFunctionError)

#: larger derivatives are not compared
LARGEST = 1e8

#: tolerance as a multiple of the change by noise
MARGIN = 100


class Failure(AssertionError):
    """Two modes differ; the message says which, and by how much."""

    def __init__(self, kind, message):
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def expect(found, expected, tolerance, kind):
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    if found.shape != expected.shape:
        raise Failure(kind, f"shape {found.shape}, expected {expected.shape}")
    with np.errstate(all="ignore"):
        wrong = ~(np.abs(found - expected) <= tolerance) & (found != expected)
    wrong &= ~(np.isnan(found) & np.isnan(expected))
    if wrong.any():
        worst = np.argmax(np.where(wrong, np.nan_to_num(np.abs(found - expected), nan=np.inf), -1))
        raise Failure(
            kind,
            f"{found.flat[worst]!r}, expected {expected.flat[worst]!r} at {np.unravel_index(worst, found.shape)}; "
            f"tolerance {np.broadcast_to(tolerance, found.shape).flat[worst]:.2g}",
        )


def expect_bits(found, expected, kind):
    found, expected = np.asarray(found), np.asarray(expected)
    same = found.dtype == expected.dtype and found.shape == expected.shape
    if not same or found.tobytes() != expected.tobytes():
        raise Failure(kind, f"{found!r}, expected {expected!r}")


def expect_as_exactly(program, found, expected, tolerance, kind):
    """Compare bits; complex values multiplied in place only up to rounding, which in NumPy depends on their layout."""
    if program.multiplies_in_place:
        expect(found, expected, tolerance, kind)
    else:
        expect_bits(found, expected, kind)


def by_complex_step(program):
    """Return value and Jacobian of the twin."""
    x = program.x.astype(complex)
    columns = []
    for i in range(x.size):
        z = x.copy()
        z[i] += STEP * 1j
        y = program.twin(z)
        columns.append(y.imag / STEP)
    return y.real, np.stack(columns, axis=-1)


def spreads(program, y, exact, eps):
    """Return the change of derivatives and values under noise of a given size; None if the shape changes."""
    spread, spread_y = np.zeros((y.size, 1)), np.zeros(y.shape)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        direction = rng.choice([-1.0, 1.0], program.x.size) * rng.uniform(0.5, 1, program.x.size)
        with twins.noise(eps, seed):
            changed = program.twin(program.x + STEP * 1j * direction)
        if changed.shape != y.shape:
            return None, None
        spread[:, 0] = np.maximum(spread[:, 0], np.abs(changed.imag / STEP - exact @ direction))
        spread_y = np.maximum(spread_y, np.abs(changed.real - y))
    return spread, spread_y


def by_cauchy(program, weights, v, n=16):
    """Return the second derivative of the weighted sum along `v` by Cauchy's formula, and its error."""
    x = program.x.astype(complex)
    found = []
    for radius in (0.1, 0.03, 0.01):
        samples = []
        for k in range(n):
            t = radius * np.exp(2j * np.pi * (k + 0.5) / n)
            samples.append(np.sum(program.twin(x + t * v) * weights) / t**2)
        found.append(2 * np.mean(samples).real)
    errors = [abs(found[0] - found[1]), abs(found[1] - found[2])]
    best = int(np.argmin(errors))
    return found[best], errors[best]


class Report:
    """The comparisons made for one program."""

    def __init__(self):
        self.skipped = ""
        self.scaled = False
        self.second = "consistent"
        self.moved = True


def check(program, second=True, replay=True):
    """Compare everything; a `Failure` names the first two modes that differ."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return _check(program, second, replay)


def _check(program, second, replay):
    report = Report()
    f, x = program.f, program.x
    y = f(x.copy())
    source = program.source()
    single = x.dtype == np.float32 or "float32" in source
    if not y.size or not np.all(np.isfinite(y)):
        report.skipped = "not finite"
        return report

    eps = 2.0**-22 if single else 2.0**-51
    try:
        mathematical, exact = by_complex_step(program)
        spread, spread_y = spreads(program, mathematical, exact, eps)
    except twins.NotContinued:
        report.skipped = "no reference"  # a derivative beyond 1e13 resembles a step that is not small
        return report
    except ValueError:  # rounding decides on the number of elements
        report.skipped = "ill-conditioned"
        return report
    # a mask of another length, or NaN in one of them: rounding decides
    if spread is None or mathematical.shape != y.shape or not np.all(np.isfinite(spread_y)):
        report.skipped = "ill-conditioned"
        return report
    of_y = np.maximum(FIRST[single] * np.maximum(np.abs(y), 1), MARGIN * spread_y)
    expect(mathematical, y, of_y, "value of the twin")
    if not np.all(np.abs(exact) < LARGEST) or not np.all(np.isfinite(spread)):
        report.skipped = "derivative not finite or large"
        return report
    rows = np.max(np.abs(exact), axis=1, keepdims=True)
    tolerance = np.maximum(FIRST[single] * np.maximum(rows, 1e-3), MARGIN * spread)
    if np.any(tolerance > 1e-2 * np.maximum(rows, 1e-3)):
        report.skipped = "ill-conditioned"
        return report
    report.scaled = bool(np.any(tolerance > FIRST[single] * np.maximum(rows, 1e-3)))

    rng = np.random.default_rng(x.size + 100 * y.size)
    v = rng.uniform(-1, 1, x.shape).astype(x.dtype)
    weights = rng.uniform(-1, 1, y.shape)
    of_sum = np.sum(tolerance * np.abs(weights)[:, None])

    def expect_value(found, kind):
        expect_as_exactly(program, found, y, of_y, kind)

    attempt = Attempts(program)
    try:
        value, J = attempt("forward", lambda: wg.jacobian(f, x, mode="forward", value=True), *REFUSALS)
    except REFUSALS as refusal:
        report.skipped = next((reason for words, reason in REFUSED.items() if words in str(refusal)), "")
        if not report.skipped:
            raise Failure(f"forward raised {type(refusal).__name__}", str(refusal)) from refusal
        return report
    expect_value(value, "value in forward mode")
    expect(J, exact, tolerance, "forward")
    value, J = attempt("reverse", lambda: wg.jacobian(f, x, mode="reverse", value=True))
    expect_value(value, "value in reverse mode")
    expect(J, exact, tolerance, "reverse")
    if J.dtype != np.result_type(x.dtype):
        raise Failure("dtype", f"{J.dtype} of {x.dtype}")
    value, tangent = attempt("jvp", lambda: wg.jvp(f, x, v))
    expect_value(value, "value of jvp")
    expect(tangent, exact @ v, tolerance[:, 0] * x.size, "jvp")
    value, pullback = attempt("vjp", lambda: wg.vjp(f, x))
    expect_value(value, "value of vjp")
    cotangent = weights.astype(y.dtype)
    first = attempt("pullback", lambda: pullback(cotangent))
    expect(first, cotangent @ exact, of_sum, "pullback")
    expect_bits(attempt("pullback", lambda: pullback(cotangent)), first, "second pullback")

    if replay:
        report.moved = check_replay(program, y, of_y, exact, tolerance, cotangent, of_sum, attempt)
    if second:
        try:
            report.second = check_second(program, weights, v, rows, spread, single, attempt)
        except Failure as failure:
            if not any(words in str(failure) for words in NO_SECOND):
                raise
            report.second = "refused"
    return report


#: error messages of functions that have one derivative only
NO_SECOND = ("as a second derivative of", "derivative in its parameters twice")


class Attempts:
    """Calls of derivatives; an exception becomes a failure that names the call."""

    def __init__(self, program):
        self.program = program

    def __call__(self, kind, call, *expected):
        try:
            return call()
        except expected:
            raise
        except Exception as error:
            raise Failure(f"{kind} raised {type(error).__name__}", str(error)) from error


def check_replay(program, y, of_y, exact, tolerance, cotangent, of_sum, attempt):
    """Compare replays of recordings; return False if a nearby point takes another branch."""
    f, x = program.f, program.x
    recorded = attempt("record", lambda: wg.record(f, x, exact=True))
    expect_as_exactly(program, attempt("exact replay", lambda: recorded(x)), y, of_y, "value in replay")
    recorded = attempt("record", lambda: wg.record(f, x))
    expect(attempt("inexact replay", lambda: recorded(x)), y, of_y, "value in inexact replay")
    expect(attempt("replayed Jacobian", lambda: recorded.jacobian()(x)), exact, tolerance, "replay")
    _, found = attempt("replayed pullback", lambda: recorded.vjp()(x, cotangent))
    expect(found, cotangent @ exact, of_sum, "replayed pullback")
    there = (x * (1 + 0.001 * np.cos(np.arange(x.size)))).astype(x.dtype)
    try:
        found = attempt("replay elsewhere", lambda: recorded(there), GuardError)
        expect(found, f(there.copy()), of_y, "replay elsewhere")
    except GuardError:
        return False
    return True


def check_second(program, weights, v, rows, spread, single, attempt):
    loss, x = program.loss(weights), program.x

    H = attempt("hessian", lambda: wg.hessian(loss, x))
    scale = max(1.0, np.max(np.abs(H), initial=0.0), np.max(rows)) if np.all(np.isfinite(H)) else 1.0
    conditioning = np.max(spread / np.maximum(rows, 1e-3))
    tolerance = scale * max(SECOND[single], 1e3 * MARGIN * conditioning)
    if tolerance > 1e-2 * scale:
        return "ill-conditioned"
    ways = {
        "jvp of grad": (lambda: wg.jvp(wg.grad(loss), x, v)[1], H @ v),
        "grad of jvp": (lambda: wg.grad(lambda z: wg.jvp(loss, z, v)[1], x), H @ v),
        "hvp": (lambda: wg.hvp(loss, x, v), H @ v),
        "grad of grad": (lambda: wg.grad(lambda z: np.sum(wg.grad(loss)(z) * v), x), H @ v),
        "jvp of jvp": (lambda: wg.jvp(lambda z: wg.jvp(loss, z, v)[1], x, v)[1], v @ H @ v),
        "replayed Hessian": (lambda: wg.record(loss, x).hessian()(x), H),
    }
    for kind, (way, expected) in ways.items():
        expect(attempt(kind, way), expected, tolerance, kind)
    try:
        exact, error = by_cauchy(program, weights, v.astype(float))
    except Exception:
        return "consistent"
    if not np.isfinite(exact) or error > 1e-2 * scale:
        return "consistent"
    v = v.astype(float)
    expect(v @ H @ v, exact, max(tolerance * x.size, 10 * error), "second derivative")
    return "exact" if error < 1e-8 * scale else "roughly"
