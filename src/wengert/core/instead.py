"""What to write instead of a call of compiled code that a traced value reached: read from the user's own line."""

from __future__ import annotations

import ast
import itertools
import linecache
import sys
import textwrap

import numpy as np

#: draws as functions of draws without parameters, whose derivative they have
REPARAMETERISED = {
    "exponential": "scale * rng.standard_exponential(size)",
    "gumbel": "loc - scale * np.log(rng.standard_exponential(size))",
    "laplace": "loc + scale * rng.laplace(size=size)",
    "logistic": "loc + scale * rng.logistic(size=size)",
    "lognormal": "np.exp(mean + sigma * rng.standard_normal(size))",
    "multivariate_normal": "mean + np.linalg.cholesky(cov) @ rng.standard_normal(n)",
    "normal": "loc + scale * rng.standard_normal(size)",
    "pareto": "np.expm1(rng.standard_exponential(size) / a)",
    "power": "np.exp(-rng.standard_exponential(size) / a)",
    "rayleigh": "scale * np.sqrt(2 * rng.standard_exponential(size))",
    "uniform": "low + (high - low) * rng.random(size)",
    "weibull": "rng.standard_exponential(size) ** (1 / a)",
}
for name in ("gamma", "standard_gamma"):
    REPARAMETERISED[name] = "scale * rng.standard_gamma(shape, size), in which only the scale may vary"

#: draws of elements, which are those of places
OF_PLACES = {"choice": "x[rng.integers(len(x), size=size)]"}
for name in ("permutation", "permuted", "shuffle"):
    OF_PLACES[name] = "x[rng.permutation(len(x))]"

_SOLVE = "numpy.linalg.solve(a, b)"
_STEPS = "the steps of a method as a loop, see wengert.loop"
_NODES = "a sum over nodes, as those of numpy.polynomial.legendre.leggauss(n)"

#: functions of SciPy in the words of NumPy, where these are others
OF_SCIPY = {
    "scipy.linalg.cholesky": "numpy.linalg.cholesky(a).T",
    "scipy.linalg.expm": "wengert.primitive(expm, jvp=lambda t, y, a: expm_frechet(a, t, compute_expm=False), "
    "vjp=lambda ybar, y, a: expm_frechet(a.T, ybar, compute_expm=False))",
    "scipy.integrate.odeint": _STEPS,
    "scipy.integrate.quad": _NODES,
    "scipy.integrate.simpson": "simpson(numpy.eye(y.size)) @ y",
    "scipy.integrate.solve_ivp": _STEPS,
    "scipy.integrate.trapezoid": "numpy.trapezoid",
    "scipy.signal.convolve": "numpy.convolve",
}
for name in ("cho_factor", "cho_solve", "lu_factor", "lu_solve", "solve_banded", "solve_triangular", "solveh_banded"):
    OF_SCIPY[f"scipy.linalg.{name}"] = _SOLVE


def of(frame) -> str:
    """A sentence for the call that a frame is at, or nothing."""
    call = call_at(frame)
    fun = called(frame, call)
    name = getattr(fun, "__name__", "")
    if isinstance(fun, type) and issubclass(fun, np.generic):
        return f"Write x.astype(numpy.{name}) for numpy.{name}(x). "
    if isinstance(getattr(call, "func", None), ast.Attribute) and call.func.attr == "dot" and fun is not np.dot:
        return "A plain array's own method sees plain arrays alone: write a @ x, or numpy.dot(a, x), for a.dot(x). "
    if (place := place_in_scipy(fun)) is not None:
        return of_scipy(place, name, ast.unparse(call.func))
    random = sys.modules.get("numpy.random")
    owner = getattr(fun, "__self__", None)
    if random is None or not isinstance(owner, (random.Generator, random.RandomState)):
        return ""
    if name in REPARAMETERISED:
        return f"A draw with traced parameters is one without: write {REPARAMETERISED[name]} for {name}(...). "
    if name in OF_PLACES:
        return f"A draw of elements is one of places: write {OF_PLACES[name]} for {name}(...). "
    return f"Draws of {name} have no derivative: pass wengert.stop_gradient(...). "


def place_in_scipy(fun) -> str | None:
    """The package of SciPy, such as scipy.linalg, that a function is of."""
    parts = str(getattr(fun, "__module__", "")).split(".")
    return ".".join(itertools.takewhile(lambda part: not part.startswith("_"), parts)) if parts[0] == "scipy" else None


def of_scipy(place: str, name: str, written: str) -> str:
    """A sentence for a function of a package of SciPy, which the user's line calls as it is written there."""
    of_numpy = getattr(np, place.removeprefix("scipy."), None) if place in ("scipy.fft", "scipy.linalg") else None
    instead = OF_SCIPY.get(f"{place}.{name}") or (f"numpy.{place[6:]}.{name}" if hasattr(of_numpy, name) else None)
    return f"{written} takes plain arrays alone" + (f": write {instead}. " if instead else ". ")


def is_fill(frame) -> bool:
    """Is a frame at a call of an array's own ``fill``?"""
    fun = getattr(call_at(frame), "func", None)
    return isinstance(fun, ast.Attribute) and fun.attr == "fill"


def call_at(frame):
    """The call that a frame is at, as its source has it; None where that cannot be told."""
    if frame is None:
        return None
    positions = itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    line, end_line, start, end = next(positions, (None,) * 4)
    if None in (line, end_line, start, end):
        return None
    lines = [linecache.getline(frame.f_code.co_filename, n).encode() for n in range(line, end_line + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        tree = ast.parse(textwrap.dedent(b"".join(lines).decode()), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return tree if isinstance(tree, ast.Call) else None


def called(frame, call):
    """The function that is called; None where names and attributes do not tell."""
    try:
        return held_by(frame, call.func)
    except (LookupError, AttributeError, ValueError):
        return None


def held_by(frame, node):
    """The object of a name or of an attribute of one; nothing else is evaluated."""
    if isinstance(node, ast.Attribute):
        return getattr(held_by(frame, node.value), node.attr)
    space = frame.f_locals if node.id in frame.f_locals else frame.f_globals
    return space[node.id]
