"""Numerical checks of derivatives: `compare` reports digits and times, `check_derivatives` raises.

The references are finite differences, extrapolated to step 0 with an error estimate, and complex steps.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from wengert import api
from wengert.containers import children_of, complex_output_message, input_leaf, output_leaf, split
from wengert.core.rebind.rebind import rebound
from wengert.errors import ComplexValueError, MutatedInputWarning
from wengert.transforms.dense import JVP, Gradient, Jacobian
from wengert.transforms.differences import ComplexSteps, Subject, joined, parted
from wengert.transforms.slopes import Slopes

__all__ = ["Bisection", "Check", "Comparison", "Finding", "bisect_passes", "check_derivatives", "compare"]


def __dir__():
    return sorted(__all__)


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison:
    """Result of `compare`; print it for a table.

    Attributes
    ----------
    exact, differences : ndarray, shape ``(*T, *S)``
        The two Jacobians.
    digits : float
        Decimal digits to which the worst entry agrees, relative to the largest entry of its row.
    worst : tuple of int
        Index of that entry.
    time_function, time_exact, time_differences : float
        Seconds of one call, the fastest of three.
    """

    name: str
    exact: np.ndarray
    differences: np.ndarray
    digits: float
    worst: tuple
    time_function: float
    time_exact: float
    time_differences: float

    def __repr__(self):
        rows = [
            f"{self.name}: Jacobian of shape {self.exact.shape}",
            f"  digits in agreement   {self.digits:.1f} (two-point differences reach about 7)",
        ]
        if self.exact.size:
            rows.append(
                f"  worst entry {self.worst}: exact {self.exact[self.worst]:.17g}, "
                f"differences {self.differences[self.worst]:.17g}"
            )
        for label, seconds in (
            ("function", self.time_function),
            ("exact", self.time_exact),
            ("differences", self.time_differences),
        ):
            rows.append(f"  {label:<12} {seconds * 1e6:12.1f} us  {seconds / self.time_function:8.2f} f")
        return "\n".join(rows)


def compare(f: Callable, x: Any, /, *, args: tuple = (), kwargs: dict | None = None) -> Comparison:
    """Compare the exact Jacobian of `f` at `x` with two-point differences.

    Parameters
    ----------
    f : callable
        Maps an array of shape S to an array of shape T, or to a list of scalars.
    x : array_like, shape S
        Point of evaluation.
    args, kwargs : tuple, dict
        Further arguments of `f`.

    Returns
    -------
    Comparison
        Both Jacobians, the number of digits in which they agree, and the times; ``print`` shows a table.

    Raises
    ------
    TypeError
        If `x` or the result of `f` is not a single array.

    See Also
    --------
    wengert.testing.check_derivatives : Raise if derivatives are wrong.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> report = wg.compare(lambda x: np.sin(x) * x[0], [1.0, 2.0])
    >>> report.digits > 6
    True
    """
    from scipy.optimize import approx_fprime

    kwargs = kwargs or {}
    derivative = Jacobian(f)
    if children_of(x) is not None:
        raise TypeError(
            f"compare: expected a number or an array, got a {type(x).__name__}: compare its arrays separately"
        )
    x = np.asarray(input_leaf(x, "compare"), dtype=np.float64)
    fast = derivative(x, *args, **kwargs)
    if not isinstance(fast, (np.ndarray, np.generic)):
        raise TypeError(f"compare: {derivative.name} is a {type(fast).__name__}; compare functions of one array")
    exact = np.asarray(fast)

    subject = Subject(f, x, args, kwargs)
    flat, point = subject.value, subject.point
    step = math.sqrt(np.finfo(float).eps) * np.maximum(np.abs(point), 1.0)
    rough = np.reshape(approx_fprime(point, flat, step), exact.shape)
    digits, worst = _agreement(exact, rough, x.size)
    return Comparison(
        derivative.name,
        exact,
        rough,
        digits,
        worst,
        _seconds(lambda: flat(point)),
        _seconds(lambda: derivative(x, *args, **kwargs)),
        _seconds(lambda: approx_fprime(point, flat, step)),
    )


def _agreement(exact, rough, n):
    """Return the digits to which the worst entry agrees, relative to its row's largest entry, and its index."""
    if exact.size == 0:
        return math.inf, ()
    rows = exact.reshape(-1, n)
    scale = np.abs(rows).max(axis=1, keepdims=True)
    error = np.abs(rows - rough.reshape(-1, n)) / np.where(scale > 0, scale, 1.0)
    error = np.where(np.isnan(error), math.inf, error)
    worst = tuple(int(i) for i in np.unravel_index(error.argmax(), exact.shape))
    largest = float(error.max())
    return (-math.log10(largest) if largest > 0 else math.inf), worst


def _seconds(run):
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


# ------------------------------------------------------------------------------------------ check_derivatives

#: relative tolerances by item size in bytes: between exact methods, which differ by rounding, and against differences
_ROUNDING_RTOL = {8: 1e-9, 4: 1e-4, 2: 1e-2}
_DIFFERENCE_RTOL = {8: 1e-6, 4: 1e-3, 2: 3e-2}

_DIRECTION_COUNT = 3  # number of random directions
MAX_LOCATED_VARIABLES = 64  # maximum number of variables for which a failure is traced to a single entry


@dataclasses.dataclass(frozen=True, repr=False)
class Check:
    """Result of `check_derivatives`; print it.

    Attributes
    ----------
    name : str
        The function.
    findings : tuple of Finding
        One for each comparison.
    failures : tuple of Finding
        The comparisons that disagree; `check_derivatives` raises if there are any.
    """

    name: str
    findings: tuple

    @property
    def failures(self) -> tuple:
        return tuple(finding for finding in self.findings if finding.text)

    def __repr__(self):
        failed = len(self.failures)
        result = f"{failed} of {len(self.findings)} checks failed" if failed else "derivatives agree"
        return "\n".join([f"{self.name}: {result}", *map(str, self.findings)])


@dataclasses.dataclass(frozen=True)
class Finding:
    """One comparison of `check_derivatives`.

    Attributes
    ----------
    method, reference : str
        Method that computed the derivative, and the reference.
    digits : float
        Decimal digits to which the worst entry agrees.
    text : str
        Description of the failure; empty if there is none.
    """

    method: str
    reference: str
    digits: float
    text: str = ""

    def __str__(self):
        digits = "all" if self.digits == math.inf else f"{max(0.0, self.digits):.1f}"
        line = f"  {self.method:<32} {digits:>4} digits, against {self.reference}"
        return f"{line}: FAILED\n    " + self.text.replace("\n", "\n    ") if self.text else line


def check_derivatives(
    f: Callable,
    x: Any,
    order: int = 2,
    modes: tuple[Literal["forward", "reverse", "mixed"], ...] = ("forward", "reverse", "mixed"),
    *,
    args: tuple = (),
    kwargs: dict | None = None,
    argnums: int | tuple = 0,
    rtol: float | None = None,
    atol: float = 0.0,
    seed: int = 1964,
    reference: Literal["auto", "differences", "complex-step"] = "auto",
) -> Check:
    """Raise unless all methods of differentiation agree with each other and with finite differences of the function.

    The value must equal that of plain NumPy bit for bit; `f` is called about a hundred times.
    First derivatives are multiplied by random directions in forward and reverse mode, and compared with each other up
    to rounding and with the reference.
    Second derivatives of a random linear combination of the outputs are multiplied by random directions in every
    nesting of the modes, and compared with each other, with their transpose, and with differences of gradients.

    Parameters
    ----------
    f : callable
        Maps an array or container (and further arguments) to an array, scalar or container.
    x : array_like or container
        Point of evaluation; never changed.
    order : {1, 2}
        Highest order that is checked.
    modes : tuple of {"forward", "reverse", "mixed"}
        "forward" and "reverse" use only that mode; "mixed" is forward over reverse and reverse over forward.
    args, kwargs : tuple, dict
        Further arguments of `f`.
    argnums : int or tuple of int
        Positions of the differentiated arguments.
    rtol, atol : float, optional
        Tolerances against the reference, relative to the size of the entry and absolute.
        By default 1e-6 against differences and 1e-9 against complex steps, in single precision 1e-3 and 1e-4;
        the estimated error of the differences is added.
    seed : int
        Seed of the random directions.
    reference : {"auto", "differences", "complex-step"}
        Reference for first derivatives. "auto" is a complex step if `f` accepts complex arguments and the step agrees
        with differences, otherwise differences extrapolated to step 0.

    Returns
    -------
    Check
        Digits of agreement for each comparison; its ``repr`` is a table.

    Raises
    ------
    AssertionError
        If a comparison fails, or `f` has a kink at `x`. The message gives the method, the worst entry, both values and
        a hint.
    UnsupportedFunctionError
        Any error of the derivatives themselves propagates unchanged.

    See Also
    --------
    wengert.compare : Report digits and times.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> from wengert.testing import check_derivatives
    >>> report = check_derivatives(lambda x: np.sin(x) * x[0], [1.0, 2.0])
    >>> min(finding.digits for finding in report.findings) > 6
    True
    >>> check_derivatives(np.abs, 0.0, order=1)
    Traceback (most recent call last):
    AssertionError: absolute: 1 of 6 checks failed
    ...
    """
    if order not in (1, 2):
        raise ValueError(f"check_derivatives: order must be 1 or 2, not {order!r}")
    unknown = set(modes) - {"forward", "reverse", "mixed"}
    if unknown:
        raise ValueError(f"check_derivatives: modes must be 'forward', 'reverse' or 'mixed', not {sorted(unknown)}")
    if reference not in ("auto", "differences", "complex-step"):
        raise ValueError(
            f"check_derivatives: reference must be 'auto', 'differences' or 'complex-step', not {reference!r}"
        )
    with warnings.catch_warnings(action="ignore", category=MutatedInputWarning), np.errstate(all="ignore"):
        checker = _Checker(Subject(f, x, args, kwargs or {}, argnums), modes, rtol, atol, seed, reference)
        if checker.m and checker.subject.n:
            checker.first_order()
            if order == 2 and not checker.report().failures:
                checker.second_order()
    report = checker.report()
    if report.failures:
        raise AssertionError(repr(report))
    return report


class _Checker:
    """Collects the findings of `check_derivatives`."""

    def __init__(self, subject, modes, rtol, atol, seed, reference):
        self.subject = subject
        self.modes = modes
        self.rtol = rtol
        self.atol = atol
        self.random = np.random.default_rng(seed)
        self.reference = reference
        self.findings = []
        self.is_rough = False
        leaves = subject.leaves()
        if any(leaf.dtype.kind == "c" for leaf in leaves):
            raise ComplexValueError(complex_output_message("check_derivatives"))
        self.leaves = [leaf.astype(float) if leaf.dtype.kind in "biu" else leaf for leaf in leaves]
        self.shapes = [leaf.shape for leaf in leaves]
        self.m = sum(map(math.prod, self.shapes))
        self.itemsize = min([dtype.itemsize for dtype in (*subject.dtypes, *(leaf.dtype for leaf in self.leaves))])
        self.rounding = _ROUNDING_RTOL[self.itemsize]
        in_double = [leaf.dtype for leaf in subject.leaves(subject.point) if leaf.dtype.kind == "f"]
        self.precision = max([np.finfo(dtype).eps for dtype in in_double], default=np.finfo(float).eps)
        self.size = np.maximum(np.abs(subject.point), 0.01)  # scale of the steps
        self.directions = self.random.normal(size=(_DIRECTION_COUNT, subject.n)) * self.size
        self.cotangents = self.random.normal(size=(_DIRECTION_COUNT, self.m))

    def report(self):
        return Check(self.subject.name, tuple(self.findings))

    # -- first derivatives

    def first_order(self):
        subject = self.subject
        known = self.known(self.directions)
        rows = _sizes(known)
        usual = rows + 1e6 * known.noise
        self.cotangents /= np.where(usual > 0, usual, 1.0)  # gives all outputs equal weight
        weights = np.abs(self.cotangents)
        allowed = self.allowed(known, rows)
        pairs = {}
        self.smooth(known, rows, self.shapes, "smoothness", "f has a kink at this point")
        if "forward" in self.modes:
            y, Jv = subject.forward(self.directions)
            self.same_value("value, forward", y)
            self.note("J v, forward", known.name, Jv, known.values, rows, allowed, self.shapes,
                      lambda: self.entry("forward", known.name))
            pairs["forward"] = self.cotangents @ Jv.T
        if "reverse" in self.modes:
            y, wJ = subject.reverse(self.cotangents)
            self.same_value("value, reverse", y)
            pairs["reverse"] = wJ @ self.directions.T
            self.note("w J v, reverse", known.name, pairs["reverse"], self.cotangents @ known.values.T,
                      weights @ rows, weights @ allowed, None, lambda: self.entry("reverse", known.name))
        if len(pairs) == 2:
            self.note("w J v, reverse", "forward mode", pairs["reverse"], pairs["forward"], weights @ rows,
                      weights @ (self.rounding * rows + self.atol), None, lambda: self.entry("reverse", "forward"))

    def known(self, directions):
        """Compute the reference derivatives along directions."""
        subject = self.subject
        slopes = Slopes(subject.value, subject.point, directions, self.precision)
        if self.reference == "differences":
            return slopes
        try:
            return ComplexSteps(subject.value, subject.point, directions, slopes)
        except Exception as error:
            if self.reference == "complex-step":
                raise TypeError(f"check_derivatives: a complex step through {subject.name} failed: {error}") from error
            return slopes

    def allowed(self, known, rows):
        """Return the allowed error of each output: relative to its size, plus the error of the reference."""
        rtol = self.rtol
        if rtol is None:
            rtol = self.rounding if known.name == ComplexSteps.name else _DIFFERENCE_RTOL[self.itemsize]
        return self.atol + rtol * rows + np.minimum(10 * known.errors.max(axis=0), 1e-2 * rows) + known.noise

    def entry(self, mode, reference):
        """Describe the worst entry of the Jacobian."""
        if reference in ("forward", "reverse"):
            return self.worst(self.jacobian(mode), self.jacobian(reference), self.shapes, mode, reference)
        return self.worst(self.jacobian(mode), self.by_columns(self.known), self.shapes, mode, reference)

    def jacobian(self, mode):
        subject = self.subject
        return subject.forward(np.eye(subject.n))[1].T if mode == "forward" else subject.reverse(np.eye(self.m))[1]

    # -- second derivatives

    def second_order(self):
        """Check second derivatives of one linear combination of the outputs."""
        subject = self.subject
        combined = subject.of(_combination(subject.f, parted(self.cotangents[0], self.shapes)))
        known = self.known_second(combined, self.directions)
        rows = _sizes(known)
        allowed = self.allowed(known, rows)
        weights = np.abs(self.directions)
        whole = (weights @ rows).max()
        self.smooth(known, rows, subject.shapes, "smoothness of the gradient", "a first derivative has a kink here")
        first = None
        for mode, way, products in _second_ways(combined):
            if mode not in self.modes:
                continue
            found = products(self.directions)
            if way == "forward over forward":
                pairs = found
                expected = self.directions @ known.values.T
                self.note(f"u H v, {way}", known.name, pairs, expected, whole, weights @ allowed)
            else:
                pairs = found @ self.directions.T
                self.note(f"H v, {way}", known.name, found, known.values, rows, allowed, subject.shapes,
                          functools.partial(self.second_entry, way, products, combined))
            self.note(f"u H v, {way}", "v H u", pairs, pairs.T, whole, 10 * self.rounding * whole)
            if first is not None:
                self.note(f"u H v, {way}", first[0], pairs, first[1], whole, 10 * self.rounding * whole)
            first = first or (way, pairs)

    def known_second(self, combined, directions):
        slopes = Slopes(combined.gradient, combined.point, directions, self.precision)
        slopes.name = "differences of gradients"
        return slopes

    def second_entry(self, way, products, combined):
        """Describe the worst entry of the Hessian."""
        expected = self.by_columns(functools.partial(self.known_second, combined))
        exact = products(np.eye(combined.n)).T
        return self.worst(exact, expected, combined.shapes, way, "differences of gradients")

    # -- findings

    def same_value(self, way, found):
        """Record whether the value equals that of plain NumPy bit for bit."""
        text = ""
        for i, (y, expected) in enumerate(zip(map(np.asarray, found), self.leaves)):
            if not _is_same(y, expected):
                text = f"output {i}: {y.dtype} {y}, plain NumPy gives {expected.dtype} {expected}"
        self.findings.append(Finding(way, "plain NumPy", -math.inf if text else math.inf, text))

    def smooth(self, known, rows, shapes, way, what):
        """Record whether the one-sided derivatives agree."""
        jumps = np.abs(known.jumps).max(axis=0)
        excess = jumps - 1e-4 * rows
        i = int(excess.argmax())
        text = ""
        if np.isnan(known.values).any():
            text = "f is NaN next to this point, which may lie at the boundary of its domain"
        elif excess[i] > 0:
            text = f"at {_index(i, shapes)} the one-sided derivatives differ by {jumps[i]:.6g}: {what}"
        self.is_rough = bool(text)
        self.findings.append(Finding(way, "the other side", _digits(jumps, rows), text))

    def note(self, way, reference, found, expected, size, allowed, shapes=None, entry=None):
        """Record a comparison along random directions; `entry` describes the worst entry if it fails."""
        found, expected, allowed = np.broadcast_arrays(found, expected, np.reshape(allowed, _column(allowed, shapes)))
        error = np.where(found == expected, 0.0, np.abs(found - expected))
        excess = np.where(error <= allowed, 0.0, np.nan_to_num(error / allowed, nan=np.inf))
        text = ""
        if excess.any():
            worst = np.unravel_index(excess.argmax(), excess.shape)
            place = f", at {_index(int(worst[1]), shapes)}" if shapes is not None else ""
            text = f"along a random direction{place}: {found[worst]:.17g}, {reference} {expected[worst]:.17g}"
            if entry is not None and max(self.subject.n, self.m) <= MAX_LOCATED_VARIABLES:
                text += "\n" + entry()
            text += "\n" + self.hint(way)
        size = np.broadcast_to(np.reshape(size, _column(size, shapes)), error.shape)
        self.findings.append(Finding(way, reference, _digits(error, size), text))

    def by_columns(self, known):
        """Compute the reference Jacobian or Hessian by columns."""
        return (known(np.diag(self.size)).values / self.size[:, None]).T

    def worst(self, exact, expected, shapes, way, reference):
        digits, (i, j) = _agreement(exact, expected, self.subject.n)
        return (
            f"worst entry {_index(i, shapes, j, self.subject.shapes)}: {way} {exact[i, j]:.17g}, "
            f"{reference} {expected[i, j]:.17g} ({max(0.0, digits):.1f} digits)"
        )

    def hint(self, way):
        """Suggest where to look for the error."""
        if self.is_rough:
            return "f is not differentiable here: move x, or check each branch separately"
        if "H" in way:
            return "first derivatives agree: look for a rule that does not compute with traced values"
        if any("J" in finding.method and not finding.text for finding in self.findings):
            return "forward mode agrees: look at the pullbacks of the rules"
        return (
            "check your own rules, values that bypass the derivative (stop_gradient, passive, a cache, random "
            "numbers), and iterations that stop early"
        )


def _combination(f, weights):
    """Return a function that computes the linear combination of all outputs of f with these weights."""

    def combination(*args, **kwargs):
        leaves = [output_leaf(leaf, "check_derivatives") for leaf in split(rebound(f)(*args, **kwargs))[0]]
        return sum([np.sum(weight.astype(leaf.dtype) * leaf) for weight, leaf in zip(weights, leaves)])

    return combination


def _second_ways(subject):
    """Yield each nesting of the modes: its mode, its name, and a function that multiplies H by k directions.

    Forward over forward multiplies H by pairs of directions.
    """
    f, argnums = subject.f, subject.argnums

    def along(v):
        def slope(x, *args, **kwargs):
            return JVP(f, argnums)(x, subject.direction(v), *args, **kwargs)[1]

        return slope

    def paired(v):
        def product(*args, **kwargs):
            found = subject.differentiated(Gradient(f, argnums)(*args, **kwargs))
            return sum([np.sum(part.astype(g.dtype) * g) for part, g in zip(parted(v, subject.shapes), found)])

        return product

    def forward_over_reverse(directions):
        x, *rest = subject.arguments()
        _, found = JVP(Gradient(f, argnums), argnums)(x, subject.direction(directions), *rest, **subject.kwargs)
        return joined(split(found)[0], 1)

    yield "mixed", "forward over reverse", forward_over_reverse
    yield "mixed", "reverse over forward", lambda vs: np.stack([subject.of(along(v)).gradient() for v in vs])
    yield "reverse", "reverse over reverse", lambda vs: np.stack([subject.of(paired(v)).gradient() for v in vs])
    pairs = lambda vs: np.stack([subject.of(along(v)).forward(vs)[1][:, 0] for v in vs])
    yield "forward", "forward over forward", pairs
    x, *rest = subject.arguments()
    options = {"args": tuple(rest), "kwargs": subject.kwargs, "argnums": argnums}
    if hasattr(api, "hvp"):
        yield "mixed", "hvp", lambda vs: joined(split(api.hvp(f, x, subject.direction(vs), **options))[0], 1)
    if hasattr(api, "hessian") and len(subject.shapes) == 1 and subject.n <= MAX_LOCATED_VARIABLES:
        yield "mixed", "hessian", lambda vs: vs @ np.reshape(api.hessian(f, x, **options), (subject.n, subject.n))


def _is_same(y, z):
    """Return whether two arrays are equal in dtype, shape and every bit."""
    return (
        y.dtype == z.dtype
        and y.shape == z.shape
        and np.array_equal(y, z, equal_nan=True)
        and np.array_equal(np.signbit(y[z == 0]), np.signbit(z[z == 0]))
    )


def _column(rows, shapes):
    """Return the shape in which sizes broadcast to a comparison table: one per column, or per row without `shapes`."""
    return np.shape(rows) if shapes is not None or np.ndim(rows) != 1 else (-1, 1)


def _sizes(known):
    """Return the largest absolute derivative of each output over the directions."""
    return np.nan_to_num(np.abs(known.values).max(axis=0), nan=0.0, posinf=0.0)


def _index(i, shapes, j=None, input_shapes=()):
    """Format the index of element i of the concatenated outputs, or of entry (i, j) of their Jacobian."""
    outer, output = _element(i, shapes)
    inner, x = _element(j, input_shapes) if j is not None else ((), 0)
    if len(shapes) == 1 and len(input_shapes) <= 1:
        return str(outer + inner)
    return f"{outer} of output {output}" + (f", {inner} of input {x}" if j is not None else "")


def _element(i, shapes):
    """Return the index of element i within its array, and the number of that array."""
    leaf = 0
    while i >= math.prod(shapes[leaf]):
        i -= math.prod(shapes[leaf])
        leaf += 1
    return tuple(int(d) for d in np.unravel_index(i, shapes[leaf])), leaf


def _digits(error, size):
    """Return the number of digits to which the worst entry agrees."""
    size = np.where(size > 0, size, np.max(size, initial=0.0) or 1.0)
    largest = np.max(np.where(np.isnan(error), np.inf, error) / size, initial=0.0)
    return -math.log10(largest) if largest > 0 else math.inf


# ---------------------------------------------------------------------------------------------- passes


@dataclasses.dataclass(frozen=True, repr=False)
class Bisection:
    """Result of `bisect_passes`; print it for a table.

    Attributes
    ----------
    name : str
        The function.
    error : float
        Largest difference between the compiled and the eager result, relative to the largest element; inf if a pass,
        the verifier or the program raised an exception.
    culprits : list of str
        Passes that make the result wrong, the last to run first. Disabling any one of them makes it right or, if no
        single pass does, disabling all of them. Empty if the result is right, or is wrong even without any pass.
    errors : dict
        The error with each pass disabled, by name; with all passes disabled under the key "all".
    message : str
        The conclusion in words.
    """

    name: str
    error: float
    culprits: list[str]
    errors: dict[str, float]
    message: str

    def __repr__(self):
        rows = [f"{self.name}: {self.message}", f"  {'all passes enabled':26}error {self.error:.1e}"]
        rows += [f"  {f'{name} disabled':26}error {error:.1e}" for name, error in self.errors.items()]
        return "\n".join(rows)


def bisect_passes(
    f: Callable,
    x: Any,
    /,
    *,
    args: tuple = (),
    kwargs: dict | None = None,
    at: Any = None,
    tier: Literal["auto", "vm", "llvm"] = "vm",
    rtol: float = 1e-9,
) -> Bisection:
    """Find the compiler pass that makes the program of a function, or of its derivative, return a wrong result.

    The eager result is compared with that of the program, of the program without each pass, and without all passes.
    If no single pass is responsible, a minimal set of passes is found that must be disabled together.

    Parameters
    ----------
    f : callable
        A function or a derivative, such as ``wengert.jacobian(f)``. For a compiled function, the function it compiles.
    x : array_like or container
        First argument with which the function is recorded.
    args, kwargs : tuple, dict
        Further arguments.
    at : array_like or container, optional
        First argument for which results are compared; `x` by default.
    tier : {"vm", "llvm"}
        Execution of the programs, as for `wengert.compile`.
    rtol : float
        Relative error up to which a result counts as right.

    Returns
    -------
    Bisection
        The errors and the passes found; ``print`` shows a table.

    See Also
    --------
    wengert.compile : Disable passes with ``disable=``.
    wengert.viz.passes : Show the program after each pass.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> print(wg.testing.bisect_passes(wg.grad(lambda x: np.sum(x**2)), np.ones(3)).message)
    correct with all passes enabled

    References
    ----------
    Zeller and Hildebrandt (2002), Simplifying and isolating failure-inducing input. doi:10.1109/32.988498
    """
    from wengert.program.passes import pipeline  # imported here: `import wengert.testing` should not load programs

    f = f.f if hasattr(type(f), "__wengert__") else f
    is_sparse = hasattr(f, "replayed")  # run eagerly, it computes a dense derivative and keeps the nonzeros
    f = f.replayed.f if is_sparse else f
    point, kwargs = x if at is None else at, kwargs or {}

    def result(y):
        return y[0].matrix(y[1]) if is_sparse else y

    expected = result(f(point, *args, **kwargs))

    def error_without(*disable, tier=tier):
        try:
            with pipeline.observed(pipeline.verify_each):
                program = api.record(f, x, args=args, kwargs=kwargs, disable=disable).tiered(tier)
                return _relative_error(result(program(point, *args, **kwargs)), expected)
        except Exception:  # raised by a pass, by the verifier, or by a guard that should hold
            return math.inf

    names, name = pipeline.names(), getattr(f, "name", None) or getattr(f, "__name__", None) or repr(f)
    error, errors = error_without(), {}
    if error <= rtol:
        return Bisection(name, error, [], errors, "correct with all passes enabled")
    if tier == "llvm" and error_without(tier="vm") <= rtol:
        return Bisection(name, error, ["llvm"], errors, "incorrect on the LLVM tier, correct on the VM")
    errors = {each: error_without(each) for each in names} | {"all": error_without(*names)}
    if errors["all"] > rtol:
        message = "incorrect with all passes disabled: check the recording, the source transformation and the VM"
        return Bisection(name, error, [], errors, message)
    culprits = [each for each in reversed(names) if errors[each] <= rtol]
    if culprits:
        return Bisection(name, error, culprits, errors, f"correct if {' or '.join(culprits)} is disabled")
    culprits = names[:]
    for each in names:
        rest = [other for other in culprits if other != each]
        if error_without(*rest) <= rtol:
            culprits = rest
    culprits.reverse()
    return Bisection(name, error, culprits, errors, f"correct if {' and '.join(culprits)} are all disabled")


def _relative_error(y, expected):
    """Return the largest difference of two results relative to the largest element; inf if their structures differ."""
    (found, _), (wanted, _) = split(y), split(expected)
    if len(found) != len(wanted):
        return math.inf
    error = 0.0
    for a, b in zip(found, wanted):
        a, b = (np.asarray(each.toarray() if hasattr(each, "toarray") else each) for each in (a, b))
        if a.shape != b.shape:
            return math.inf
        differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        if differ.any():
            apart = np.abs(a - b)[differ].max() / max(np.abs(b[np.isfinite(b)]).max(initial=0.0), np.finfo(float).tiny)
            error = max(error, float(apart) if np.isfinite(apart) else math.inf)
    return error
