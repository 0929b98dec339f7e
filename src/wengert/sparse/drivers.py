"""Sparse Jacobians and Hessians as callables, computed from a detected or given pattern.

Input: a function, and optionally a pattern or a colouring. Output: callables that return SciPy sparse arrays.

The function is recorded and replayed as by `wengert.compile`, with guards on the branches it takes and on the values it
reads from outside. Each specialisation has one pattern and one `Plan`: the nonzeros are accumulated directly, recovered
from products with the seeds of a colouring, or read from a dense matrix, whichever the cost model estimates to be
cheapest.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert import notebook
from wengert.containers import children_of
from wengert.core.levels import running
from wengert.errors import PatternError, StaleProgramError
from wengert.program.ir.ir import kind_of
from wengert.program.jacobian.accumulate import Refused, entries
from wengert.program.passes.scalarise import nanoseconds
from wengert.program.program import Program
from wengert.program.specialise.compiled import UNKNOWN, Compiled
from wengert.program.tracing.pytree import fill
from wengert.sparse.colours import colouring
from wengert.sparse.pattern import MISSING_ENTRIES_HINT, check, location_of, pattern_of
from wengert.sparse.plan import Plan
from wengert.sparse.programs import CombinedProgram, Compressed, Matrix, Nonzeros, Recovered
from wengert.sparse.user_pattern import UserPattern
from wengert.transforms import dense, operators, second
from wengert.transforms.costs import (
    SPARSE_COSTS,
    least_compressed_time,
    prefers_colouring,
    prefers_ndarray,
    products_cost,
    units_cost,
)

#: fraction of nonzeros above which products with all unit vectors take no longer than with a colouring's seeds
_MAX_DENSITY = 0.75

#: range of exponents e: perturbations of up to 2**e units in the last place expose rounding errors
_PERTURBATION_EXPONENTS = 3, 13

#: modes that try direct accumulation; "auto" keeps it only if it is estimated to be faster
_ACCUMULATING_MODES = ("auto", "direct")

FORMATS = ("csr", "csc", "coo")

#: options that a sparse derivative inherits from a compiled function, with their defaults
_INHERITED_OPTIONS: dict[str, Any] = {"recheck": "auto", "tier": "auto", "constant": (), "disable": ()}


class SparseOperator(operators.Derivative):
    """A sparse Jacobian or Hessian as an operator that `Replayed` records and replays.

    A call returns a `Nonzeros` and the outputs from which it builds the result.
    """

    options = ("argnums", "with_value", "sparse", "format", "mode", "order")
    share: Callable | None = None  # how workers share products with seeds: see `Compressed`

    def __init__(self, f, argnums, value, sparse, format, mode, order):
        super().__init__(f, argnums, value)
        self.sparse, self.format, self.mode, self.order = sparse, format, mode, order
        self.word = "hessian" if order == 2 else "jacobian"
        self.name = f"{self.word}({operators.name_of(f)})"

    @property
    def given(self) -> UserPattern | None:
        """The pattern or colouring passed by the user, if any."""
        return self.sparse if isinstance(self.sparse, UserPattern) else None

    def __call__(self, *args, **kwargs):
        """Eager fallback for a function that cannot be replayed: extract the nonzeros of the dense derivative."""
        from scipy import sparse

        of = second.Hessian if self.order == 2 else dense.Jacobian
        found = of(self.f, self.argnums, self.with_value)(*args, **kwargs)
        y, matrix = found if self.with_value else (None, found)
        if children_of(matrix) is not None:
            raise TypeError(
                f"{self.name}: a sparse derivative needs a single input array and a single output array, not a "
                "container: join the parts with numpy.concatenate, or omit sparse="
            )
        n = math.prod(np.shape(args[self.argnums]))
        matrix = np.reshape(matrix, (-1, n))
        given, why = self.given, "the function cannot be replayed"
        if given is None:
            pattern = sparse.csr_array(matrix != 0)
            rows, columns = pattern.nonzero()
        else:
            given.require_shape(matrix.shape)
            pattern, rows, columns = given.pattern, given.rows, given.columns
            if np.count_nonzero(matrix) > np.count_nonzero(matrix[given.full_pattern.nonzero()]):
                raise PatternError(f"{self.name}{location_of(self.f)}: {MISSING_ENTRIES_HINT}")
        return Matrix(Plan("dense", pattern, None, why), self.format, given), [y, matrix[rows, columns]]

    def alternative(self, mode: str) -> SparseOperator:
        """The same derivative in another mode, always as a sparse array."""
        sparse = True if isinstance(self.sparse, str) else self.sparse
        return SparseOperator(self.f, self.argnums, False, sparse, "csr", mode, self.order)

    # -- programs

    def of_program(self, program: Program) -> Program:
        """Build the program of the derivative from the program of the function."""
        program._warn_about_searches()
        of_value = program
        if self.order == 2:
            program = program.grad(self.argnums)
        code, y = program._differentiable(self.word)
        x = code.inputs[program._input(self.word, self.argnums)]
        shape = math.prod(kind_of(code, y)[1]), math.prod(kind_of(code, x)[1])
        made, plan = self._planned(program, code, x, y, shape, of_value)
        keeps_out = not self.with_value  # with two outputs, the values are not the first one
        is_dense = plan.mode == "dense"
        result = Nonzeros(plan, keeps_out) if is_dense else Matrix(plan, self.format, self.given, keeps_out)
        if self.with_value:
            made = CombinedProgram([of_value, made], self.name)
        made._result, result.program = result, made
        return made

    def _planned(self, program, code, x, y, shape, of_value):
        """Return the program that computes the nonzeros, and its plan."""
        given = self.given
        if given is not None:
            given.require_shape(shape)
            if given.colours is not None and self.mode == "auto":
                why = "the colouring was given"
                return self._by_products(program, given.mode, given.colours, given.pattern, why)
        if "accumulate" in program._disabled:
            why = "pass 'accumulate' is disabled"
        elif self.mode in _ACCUMULATING_MODES:
            try:
                wanted = None if given is None else (given.rows, given.columns)
                found = entries(code, x, y, program._example, self.order == 2, wanted=wanted)
                pattern = _pattern(found.indptr, found.indices, shape) if given is None else given.pattern
                made = program._with_nonzeros(self.name, found.code)
                if self._is_dense_accumulation(pattern, made):
                    return self._dense(of_value, pattern)
                plan = Plan("direct", pattern, None, "accumulated from partials")
                return self._by_products_if_faster(program, code, made, plan)
            except Refused as reason:
                why = f"direct accumulation is not possible: {reason}"
        else:
            why = f"mode={self.mode!r} was requested"
        pattern = pattern_of(of_value, self.argnums, self.order) if given is None else given.full_pattern
        if isinstance(self.sparse, str) and pattern.nnz >= _MAX_DENSITY * math.prod(shape):
            return self._dense(of_value, pattern)
        mode, colours = self._cheapest_colouring(pattern, program._operation_count)
        if self._is_dense(pattern, colours, program._operation_count):
            return self._dense(of_value, pattern)
        return self._by_products(program, mode, colours, pattern, why)

    def _by_products(self, program, mode, colours, pattern, why):
        """Return the program and the plan for products with the seeds of a colouring."""
        given = self.given
        sides = {"forward": ["column"], "reverse": ["row"], "mixed": ["column", "row"]}[mode]
        sides = ["column"] if self.order == 2 else sides
        parts = [Compressed(program, self.argnums, self.name, colours, side, self.share) for side in sides]
        order = (given.rows, given.columns) if given is not None and (given.is_triangle or given.is_ordered) else None
        pattern = pattern if given is None else given.pattern
        return Recovered(parts, self.name, colours, order), Plan(mode, pattern, colours, why)

    def _by_products_if_faster(self, program, code, made, plan):
        """Return direct accumulation, or compressed products if those are estimated to be faster.

        The pattern is coloured only if a lower bound of the time of the products does not rule them out.
        """
        if self.mode == "direct":
            return made, plan
        pattern = plan.pattern if self.given is None else self.given.full_pattern
        f, of_entries = nanoseconds(code), nanoseconds(made._listing)
        width = pattern.nnz // max(1, *pattern.shape)  # mean nonzeros per row or column, at most their maximum
        if not prefers_colouring(of_entries, least_compressed_time(f, width, pattern.nnz)):
            return made, plan
        mode, colours = self._cheapest_colouring(pattern, program._operation_count)
        why = "estimated to be faster than direct accumulation"
        by_products = self._by_products(program, mode, colours, pattern, why)
        return by_products if prefers_colouring(made._estimated_time, by_products[0]._estimated_time) else (made, plan)

    def _is_dense_accumulation(self, pattern, program):
        """Return whether an ndarray is cheaper than a sparse array: as many operations, plus those to fill in zeros."""
        if not isinstance(self.sparse, str):
            return False
        zeros = math.prod(pattern.shape) - pattern.nnz
        return prefers_ndarray(program._operation_count, program._operation_count + SPARSE_COSTS.zero * zeros)

    def _is_dense(self, pattern, colours, f):
        """Return whether an ndarray is cheaper, computed by products with all unit vectors on one side."""
        if not isinstance(self.sparse, str):
            return False
        m, n = pattern.shape
        ways = ((n, 0), (0, m)) if self.order == 1 else ((n, 0),)
        units = min(units_cost(*way, f) for way in ways) + SPARSE_COSTS.nonzero * m * n
        return prefers_ndarray(_colouring_cost(colours, f) + SPARSE_COSTS.nonzero * pattern.nnz, units)

    def _dense(self, program, pattern):
        made = program.hessian(self.argnums) if self.order == 2 else program.jacobian(self.argnums)
        return made, Plan("dense", pattern, None, "a dense array is estimated to be cheaper")

    def _cheapest_colouring(self, pattern, f):
        """Return the mode with the lowest estimated cost, and its colouring."""
        if self.order == 2:
            return "mixed", colouring(pattern, kind="star")
        m, n = pattern.shape
        of_row = int(np.diff(pattern.indptr).max(initial=0))
        of_column = int(np.bincount(pattern.indices, minlength=1).max())
        least = {  # lower bound of the cost of each mode; a mode is coloured only if its bound beats the best cost
            "forward": ("column", units_cost(of_row, 0, f)),
            "reverse": ("row", units_cost(0, of_column, f)),
            "mixed": ("bidirectional", units_cost(-(-pattern.nnz // max(m, n, 1)), 0, f)),
        }
        ways = [(cost, mode, kind) for mode, (kind, cost) in least.items() if self.mode in (mode, *_ACCUMULATING_MODES)]
        best, found = math.inf, None
        for cost, mode, kind in sorted(ways):
            if found is None or cost + SPARSE_COSTS.call < best:
                colours = colouring(pattern, kind=kind)
                if mode == "mixed" != self.mode and not (colours.row_count and colours.column_count):
                    mode = "reverse" if colours.row_count else "forward"  # all products are on one side
                    colours = colouring(pattern, kind=least[mode][0])
                cost = _colouring_cost(colours, f)
                if cost < best:
                    best, found = cost, (mode, colours)
        return found


def _colouring_cost(colours, f):
    """Cost of the products of a colouring in scalar operations; an evaluation of f takes `f` of them."""
    return products_cost(colours.column_count, colours.row_count, colours.shape, f)


def _pattern(indptr, indices, shape):
    from scipy import sparse

    found = sparse.csr_array((np.ones(len(indices), dtype=bool), indices, indptr), shape)
    found.has_canonical_format = True
    return found


class Replayed(Compiled):
    """Records and replays a sparse derivative, and validates it by a directional derivative.

    `Compiled` compares its result with the operator run eagerly, at the first call and at some later ones. Here that
    would be the dense derivative, so the sparse matrix is compared with one product instead.
    """

    _traced: tuple | None = None  # a new program and its outputs, until `_first` takes them

    def _call(self, args, kwargs, failed):
        out = kwargs.pop("out", None)
        result, found = super()._call(args, kwargs, failed)
        if out is not None:
            values = result.values(found)
            if np.shape(out) != values.shape:
                raise ValueError(f"{self.f.name}: out= has shape {np.shape(out)}, there are {values.size} nonzeros")
            out[...] = values
        return result, found

    def _trace(self, reading, args, kwargs, leaves, n, *options):
        program = super()._trace(reading, args, kwargs, leaves, n, *options)
        if isinstance(program, str):
            return program
        outputs = super()._first(program, leaves)
        self._compare(*program._result_of_outputs(outputs), self._product(reading, args, kwargs), leaves)
        self._traced = program, outputs
        return program

    def _derivative(self, args, kwargs):
        return UNKNOWN

    def _agrees(self, *args, **kwargs):
        return True  # `_trace` has compared it

    def _first(self, program, leaves):
        known, self._traced = self._traced, None
        return known[1] if known is not None and known[0] is program else super()._first(program, leaves)

    def _matches_f(self, path, y, reading, args, kwargs, leaves):
        try:
            self._compare(*y, self._product(reading, args, kwargs), leaves)
        except PatternError:
            pass
        else:
            return True
        with self._lock:
            self._tables, self._route = {}, None
        raise StaleProgramError(
            f"{self!r}: the derivative differs from its recording: something that the function reads has changed and "
            "is not checked at each call. Pass it as an argument, or keep it in a global variable or an attribute. The "
            "recordings have been discarded, so the next call is correct"
        )

    def _product(self, reading, args, kwargs):
        """Return a function of inputs and a direction that evaluates the derivative of f itself along the direction."""
        op = self.f
        bound = op if reading.is_plain else None
        word = second.HVP if op.order == 2 else dense.JVP

        def product(leaves, v):
            numbers = iter([np.asarray(leaf)[()] if not isinstance(leaf, np.ndarray) else leaf for leaf in leaves])
            given, keywords = fill((args, kwargs), numbers)
            f = (bound or reading.bound(numbers)).f
            x = given[op.argnums]
            found = word(f, op.argnums)(given[0], v.reshape(np.shape(x)), *given[1:], **keywords)
            return found if op.order == 2 else found[1]

        return product

    def _compare(self, result, found, product, leaves):
        """Raise PatternError if the derivative disagrees with a directional derivative."""

        def nearby(rng):
            steps = 1 << int(rng.integers(*_PERTURBATION_EXPONENTS))
            moved = [_perturbed(leaf, steps, rng) for leaf in leaves]
            result, found = result_of(moved)
            return result.full_matrix(found), functools.partial(product, moved)

        op = self.f
        result_of = lambda leaves: result.program._result_of_outputs(result.program._execute(leaves))
        check(result.full_matrix(found), functools.partial(product, leaves), op.name, op.f, nearby=nearby)


def _perturbed(leaf, most, rng):
    """Perturb floats by up to `most` units in the last place; other leaves are unchanged."""
    dtype = np.result_type(leaf)
    if dtype.kind not in "fc":
        return leaf
    steps = rng.integers(-most, most, np.shape(leaf), endpoint=True)
    found = leaf * (1.0 + steps * np.finfo(dtype).eps).astype(dtype)
    return found if isinstance(leaf, np.ndarray) else type(leaf)(found)


class SparseDerivative(operators.Derivative):
    """Sparse Jacobian or Hessian of a function; takes the arguments of the function and returns a sparse array.

    Attributes
    ----------
    fun : callable
        The function, compiled.
    pattern : scipy.sparse.csr_array of bool, or None
        Pattern of the last call.
    colours : Colouring or None
        Colouring of the last call, if there was one.
    mode : str
        Mode of the last call.
    plan : Plan or None
        How the nonzeros were computed in the last call.
    """

    public = ("colours", "fun", "mode", "pattern", "plan", "values")

    def __init__(self, f, argnums=0, value=False, sparse=True, format="csr", mode="auto", order=1):
        word = "hessian" if order == 2 else "jacobian"
        modes = ("auto", "mixed") if order == 2 else ("auto", "forward", "reverse", "mixed")
        if mode not in modes:
            raise ValueError(f"{word}: with sparse=, mode is one of {', '.join(map(repr, modes))}, not {mode!r}")
        if format not in FORMATS:
            raise ValueError(f"{word}: format is one of {', '.join(map(repr, FORMATS))}, not {format!r}")
        if isinstance(sparse, str) and sparse != "auto":
            raise ValueError(f"{word}: sparse is True, False, 'auto' or a pattern, not {sparse!r}")
        if sparse is not True and not isinstance(sparse, (str, UserPattern)):
            sparse = UserPattern(sparse, order, word)
            if sparse.colours is not None and mode not in ("auto", sparse.mode):
                raise ValueError(
                    f"{word}: a {sparse.colours.kind} colouring requires mode={sparse.mode!r} or 'auto', not {mode!r}"
                )
            mode = "auto" if sparse.colours is not None else mode
        if isinstance(argnums, bool) or not isinstance(argnums, (int, np.integer)) or argnums < 0:
            raise TypeError(f"{word}: with sparse=, argnums must be one nonnegative int, not {argnums!r}")
        options = {name: getattr(f, name) for name in _INHERITED_OPTIONS} if isinstance(f, Compiled) else {}
        f = f.f if isinstance(f, Compiled) else f
        self.word = word
        super().__init__(f, int(argnums), value)
        self.sparse, self.format, self.requested_mode, self.order = sparse, format, mode, order
        self._last: Nonzeros | None = None  # describes the last result
        self.replayed = Replayed(SparseOperator(f, int(argnums), value, sparse, format, mode, order), **options)

    def __repr__(self):
        shown = "pattern" if isinstance(self.sparse, UserPattern) else repr(self.sparse)
        return f"{super().__repr__()[:-1]}, sparse={shown})"

    def _repr_html_(self):
        plan = self.plan
        if plan is None:
            return None
        return notebook.html(f"{self!r}\n{plan!r}", lambda figure: plan.plot(figure.add_subplot()))

    def __reduce__(self):
        options = (self.sparse, self.format, self.requested_mode, self.order)
        is_plain = all(getattr(self.replayed, name) == default for name, default in _INHERITED_OPTIONS.items())
        return type(self), (self.f if is_plain else self.fun, self.argnums, self.with_value, *options)

    def __call__(self, *args, out=None, **kwargs):
        if out is not None:
            raise TypeError(f"{self!r}: a sparse result does not support out=: use values(x, out=)")
        result, found = self._found(args, kwargs)
        matrix = result.matrix(found)
        return (found[0], matrix) if self.with_value else matrix

    def _found(self, args, kwargs):
        """Return the `Nonzeros` of a call, and its outputs."""
        if running.get():
            raise TypeError(
                f"{self!r}: a sparse derivative cannot be differentiated: use the dense one inside another derivative, "
                "or hessian(f, sparse=True)"
            )
        result, found = self.replayed(*args, **kwargs)
        self._last = result
        return result, found

    def compiled(self, fun: Compiled) -> SparseDerivative:
        """Return the same derivative of the compiled function."""
        cls, options = self.__reduce__()
        return cls(fun, *options[1:])

    @property
    def fun(self) -> Callable:
        """The function, compiled with the options of the derivative."""
        return Compiled(self.f, **{name: getattr(self.replayed, name) for name in _INHERITED_OPTIONS})

    def explained(self, args: tuple, kwargs: dict, measure: bool) -> Any:
        """Return the explanation that `wengert.explain` prints."""
        from wengert.sparse.explain import explained  # rarely needed, and slow to import

        return explained(self, args, kwargs, measure)

    def values(self, *args: Any, out: np.ndarray | None = None, **kwargs: Any) -> np.ndarray:
        """Return only the nonzeros, row by row, or in the order of a given COO pattern.

        Parameters
        ----------
        *args, **kwargs
            Arguments of the function.
        out : ndarray, shape (nnz,), optional
            A C-contiguous float64 array is filled without a copy.

        Returns
        -------
        ndarray, shape (nnz,)

        Raises
        ------
        ValueError
            If `out` has another shape.
        """
        if out is None:
            result, found = self._found(args, kwargs)
            return result.values(found)
        self._found(args, {**kwargs, "out": out})
        return out

    @property
    def plan(self) -> Plan | None:
        """How the nonzeros were computed in the last call; None before the first call."""
        return None if self._last is None else self._last.plan

    @property
    def pattern(self) -> Any:
        """Pattern of the last call, a boolean csr_array; None before the first call."""
        return None if self.plan is None else self.plan.pattern

    @property
    def colours(self) -> Any:
        """The `Colouring` of the last call; None if there was none."""
        return None if self.plan is None else self.plan.colours

    @property
    def mode(self) -> str:
        """Mode of the last call; before the first call, the requested mode."""
        return self.requested_mode if self.plan is None else self.plan.mode
