"""Checks and times the gradient of one kernel; prints a line of JSON: `python -m benchmarks.npbench.worker ...`."""

import itertools
import json
import sys
import time
import warnings
from statistics import median

import numpy as np

import wengert as wg
from benchmarks.npbench.kernels import Kernel, described, jax_loss

TOLERANCE = 1e-5  # of differences, relative to the product of the norms of gradient and direction
MODES = ("eager", "vm", "llvm")
#: kernels of a symmetric matrix, of which NumPy reads one half: slopes are compared along symmetric directions
SYMMETRIC = {"cholesky2"}


def main(root, name, options):
    """Return the outcome of a kernel: verdicts by argument and mode, and times by engine."""
    kernel = Kernel(root, described(root)[name], options.get("sizes"))
    outcome = {"kernel": name, "main": kernel.main, "parameters": kernel.parameters}
    if kernel.main is None:
        return outcome | {"skipped": "it has no array of floats"}
    results, indices = kernel.results()
    loss = kernel.loss(results, indices)
    if not any(np.asarray(y).dtype.kind in "fc" for y in results):
        return outcome | {"skipped": "its results are integers"}
    names = [*kernel.values]
    outcome["verdicts"] = {
        array: verdicts(kernel, loss, names.index(array), MODES if options.get("all") else MODES[:2])
        for array in (kernel.arrays if options.get("check") else [kernel.main])
    }
    if options.get("time"):
        outcome |= times(kernel, loss, names.index(kernel.main), options, results)
    return outcome


# Checks -----------------------------------------------------------------------------------------------------


def gradient(loss, position, mode):
    if mode == "eager":
        return wg.grad(loss, argnums=position)
    return wg.grad(wg.compile(loss, tier=mode), argnums=position)


def verdicts(kernel, loss, position, modes):
    """Return by mode `right` or what is wrong with the gradient."""
    expected = slope(kernel, loss, position)
    return {mode: verdict(kernel, gradient(loss, position, mode), position, expected) for mode in modes}


def verdict(kernel, g, position, expected):
    given = kernel.fresh()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = [g(*given), g(*given)]
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    if any(not _same(new, old) for new, old in zip(given, kernel.values.values())):
        return "wrong: the caller's array was changed"
    direction, slopes, error = expected
    product = float(np.sum(found[1] * direction).real)
    scale = np.linalg.norm(found[1]) * np.linalg.norm(direction)
    if not np.allclose(found[0], found[1], rtol=1e-9, atol=1e-9 * scale, equal_nan=True):
        return "wrong: two calls differ"
    if not np.isfinite(error):
        return "unchecked: not differentiable here"
    if not abs(product - slopes) <= TOLERANCE * max(scale, 1e-300) + 10 * error:
        return f"wrong: {product} instead of {slopes} +- {error}"
    notes = [str(each.message) for each in told if issubclass(each.category, wg.CompileWarning)]
    return f"uncompiled: {notes[0]}" if notes else "right"


def _same(new, old):
    return not isinstance(old, np.ndarray) or np.array_equal(new, old, equal_nan=old.dtype.kind in "fc")


def slope(kernel, loss, position):
    """Return a direction, the slope of the loss along it by extrapolated central differences, and its error."""
    given = kernel.fresh()
    x = given[position]
    rng = np.random.default_rng(3)
    direction = (rng.uniform(-1, 1, x.shape) * (1 + np.abs(x))).astype(x.dtype)
    if x.dtype.kind == "c":
        direction = direction + 1j * rng.uniform(-1, 1, x.shape)
    if kernel.name in SYMMETRIC:
        direction = direction + direction.T

    def value(h):
        args = kernel.fresh()
        args[position] = (x + h * direction).astype(x.dtype)
        try:
            return float(loss(*args))
        except np.linalg.LinAlgError:
            return np.nan

    def central(h):
        return (value(h) - value(-h)) / (2 * h)

    h = 1e-2 if x.dtype.itemsize // (1 + (x.dtype.kind == "c")) < 8 else 3e-4
    estimates = []
    with np.errstate(all="ignore"):
        for step in (h, h / 4, h / 16):
            estimates.append((4 * central(step / 2) - central(step)) / 3)
    gaps = [abs(a - b) for a, b in itertools.pairwise(estimates)]
    if np.isnan(gaps).all():
        return direction, np.nan, np.nan
    best = int(np.nanargmin(gaps))
    part = np.conj(direction) if x.dtype.kind == "c" else direction
    return part, estimates[best + 1], gaps[best]


# Times ------------------------------------------------------------------------------------------------------


def times(kernel, loss, position, options, results):
    """Return the times of the first and of later calls, at new points, in alternation."""
    rounds = options.get("rounds", 7)
    calls, first, notes, values = {}, {}, {}, {}
    points = kernel.points(rounds + 1)
    engines = {mode: gradient(loss, position, mode) for mode in options.get("modes", MODES)}
    if options.get("jax"):
        engines |= _jax_gradient(kernel, position, results, notes)
    for name, g in engines.items():
        start = time.perf_counter()
        try:
            values[name] = np.asarray(g(*points[0]))
        except Exception as error:
            notes[name] = f"{type(error).__name__}: {error}"[:300]
            continue
        first[name] = time.perf_counter() - start
        g(*points[0])
        calls[name] = g
    reference = values.get("eager", next(iter(values.values())))
    for name, value in values.items():
        tolerance = 1e-3 if np.finfo(reference.dtype).eps > 1e-10 else 1e-7
        if not np.linalg.norm(value - reference) <= tolerance * np.linalg.norm(reference):
            notes[name] = "another gradient"
            calls.pop(name, None)
    samples = {name: [] for name in ("f", *calls)}
    gradients = []
    for point in points[1:]:
        samples["f"].append(_seconds(loss, [np.copy(x) if isinstance(x, np.ndarray) else x for x in point])[0])
        for name, g in calls.items():
            seconds, y = _seconds(g, point)
            samples[name].append(seconds)
        gradients.append(np.asarray(y))
    is_constant = all(np.array_equal(gradients[0], y) for y in gradients)
    return {"times": {k: median(v) for k, v in samples.items()}, "best": {k: min(v) for k, v in samples.items()},
            "first": first, "notes": notes, "remembered": is_constant}  # fmt: skip


def _seconds(call, args):
    start = time.perf_counter()
    y = call(*args)
    return time.perf_counter() - start, y


def _jax_gradient(kernel, position, results, notes):
    """Return the gradient by JAX under the name "jax"; none if the kernel has no version for it."""
    import jax

    jax.config.update("jax_enable_x64", True)
    loss = jax_loss(kernel, results)
    if loss is None:
        notes["jax"] = "no version for JAX with these results"
        return {}
    static = tuple(i for i, x in enumerate(kernel.values.values()) if not isinstance(x, np.ndarray))
    compiled = jax.jit(jax.grad(loss, argnums=position), static_argnums=static)
    return {"jax": lambda *args: np.conj(compiled(*args).block_until_ready())}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))), flush=True)
