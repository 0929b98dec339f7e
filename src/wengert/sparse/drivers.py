"""Sparse Jacobians and Hessians as callables: the pattern is found from the function, nonzeros by the cheapest plan.

A sparse derivative is replayed: the function is recorded as `wengert.compile` does it, with guards on the branches that
it takes, and what it reads from outside is looked at in each call.
For each path there is one pattern, and one plan.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.containers import children_of
from wengert.core.levels import running
from wengert.errors import PatternError, StaleProgramError
from wengert.program.ir.ir import kind_of
from wengert.program.ir.verify import check_fields, check_sparse, expect
from wengert.program.jacobian.accumulate import Refused, entries
from wengert.program.passes.scalarise import nanoseconds
from wengert.program.program import Program, Swept
from wengert.program.signature import Result, Slot
from wengert.program.specialise.compiled import UNKNOWN, Compiled
from wengert.program.tracing.pytree import fill
from wengert.sparse.colours import colouring
from wengert.sparse.compression import Recovery
from wengert.sparse.pattern import LEFT_OUT, check, pattern_of, place_of
from wengert.sparse.plan import Plan
from wengert.sparse.user_pattern import Given
from wengert.transforms import dense, second
from wengert.transforms.costs import (
    SPARSE_COSTS,
    is_coloured,
    is_ndarray,
    least_by_colours,
    products_cost,
    units_cost,
)

#: with more than such a share of nonzeros products with all units take as long as those with a colouring's seeds
_FULL = 0.75

#: powers of 2: by so many units in the last place numbers are moved to tell rounding errors
_STEPS = 3, 13

#: modes in which entries are computed by themselves where that can be: if it is fast, or in any case, to be compared
_BY_ENTRIES = ("auto", "direct")

FORMATS = ("csr", "csc", "coo")

#: options of `compile` that sparse derivatives of a compiled function take over, with their defaults
_OPTIONS: dict[str, Any] = {"recheck": "auto", "tier": "auto", "constant": (), "disable": ()}


class Nonzeros(Result):
    """What becomes of the outputs of a sparse program: its values, before them that of the function if it is asked for.

    A call gives this and the outputs, so that whoever has them knows by which plan they were computed.
    """

    def __init__(self, plan, keeps_out=False):
        super().__init__(Slot(0))
        self.plan, self.keeps_out = plan, keeps_out
        self.program: Program | None = None  # whose result this is

    def __call__(self, found):
        return self, found

    def values(self, found):
        """A line of all nonzeros, in the order in which they are asked for."""
        return np.ravel(found[-1])

    def matrix(self, found):
        """What the user gets."""
        return found[-1]

    def whole(self, found):
        """The matrix with both triangles, to be compared with the function."""
        from scipy import sparse

        return sparse.csr_array(found[-1].reshape(self.plan.pattern.shape))


class Matrix(Nonzeros):
    """The same, as a sparse array.

    Arrays of indices are the same in all results, and cannot be written.
    """

    def __init__(self, plan, format, given=None, keeps_out=False):
        super().__init__(plan, keeps_out)
        self.is_triangle = given is not None and given.is_triangle
        self.source = None if given is None else given.source  # of each nonzero in its format, among the values
        self.made = self._made(plan.pattern, format)

    def _made(self, pattern, format):
        """The sparse array without its data."""
        from scipy import sparse

        m, n = pattern.shape
        indices, indptr = pattern.indices, pattern.indptr
        rows = np.repeat(np.arange(m, dtype=indices.dtype), np.diff(indptr)) if format != "csr" else None
        data = np.zeros(len(indices))
        if format == "coo":
            made = sparse.coo_array((data, (rows, indices)), (m, n))
        elif format == "csc":
            order = np.argsort(indices, kind="stable")
            self.source = order if self.source is None else self.source[order]
            indptr = np.zeros(n + 1, indptr.dtype)
            np.cumsum(np.bincount(indices, minlength=n), out=indptr[1:])
            made = sparse.csc_array((data, rows[order], indptr), (m, n))
        else:
            made = copy.copy(pattern)
            made.data = data
        made.has_canonical_format = True
        for part in made.coords if format == "coo" else (made.indices, made.indptr):
            part.flags.writeable = False
        return made

    def check_parts(self, program, verifier):
        super().check_parts(program, verifier)
        check_fields(self, {"is_triangle": bool, "source": lambda x: x is None or type(x) is np.ndarray})
        check_sparse(self.made)
        part = program._parts[-1] if type(program) is Together else program
        shape = part._output_shape if self.source is None else self.source.shape
        expect(shape == self.made.data.shape, "its matrix has another number of nonzeros")

    def matrix(self, found):
        data = found[-1]
        made = object.__new__(type(self.made))  # a copy, without asking how it is to be copied
        made.__dict__.update(self.made.__dict__)
        made.data = data if self.source is None else data[self.source]
        return made

    def whole(self, found):
        made = self.matrix(found).tocsr()
        if not self.is_triangle:
            return made
        twice = made + made.T
        twice.setdiag(made.diagonal())
        return twice


class Compressed(Swept):
    """Products with the seeds of a colouring, on one side."""

    def __init__(self, program, argnums, name, colours, side):
        self._colours, self._side = colours, side
        count = colours.row_count if side == "row" else colours.column_count
        super().__init__(program, argnums, side == "row", name, count)

    def _directions(self, first, stop):
        return self._colours.seeds(first, stop, side=self._side, dtype=self._dtype)

    def _assembled(self, products):
        return products


class Together(Program):
    """Programs of the same arguments, each with one output, and what is made of their outputs."""

    def __init__(self, parts, name):
        self._parts = parts
        one = parts[0]
        super().__init__(name, one._listing, one._form, one._result, one._exact, one._example, one._floats)
        self._disabled = one._disabled

    def _check_parts(self, verifier):
        check_fields(self, {"_parts": list})
        expect(self._parts, "it has no parts")
        for part in self._parts:
            expect(isinstance(part, Program), "a part is no program")
            verifier.check(part)
        super()._check_parts(verifier)

    def _exampled(self):
        return self._parts[0]._exampled()

    def tiered(self, tier):
        made = super().tiered(tier)
        made._parts = [part.tiered(tier) for part in self._parts]
        return made

    @property
    def _single_vm(self):
        return None

    @property
    def _execute(self):
        return lambda leaves, out=None: self._made_of([part._execute(leaves)[0] for part in self._parts], out)

    @property
    def _try_execute(self):
        return self._attempt

    def _attempt(self, leaves, out=None):
        found = []
        for part in self._parts:
            y = part._try_execute(leaves)
            if type(y) is int:
                return y
            found.append(y[0])
        return self._made_of(found, out)

    @property
    def _operation_count(self):
        return sum(part._operation_count for part in self._parts)

    @property
    def _estimated_time(self):
        return sum(part._estimated_time for part in self._parts)

    @property
    def _workspace_bytes(self):
        return sum(part._workspace_bytes for part in self._parts)

    def _made_of(self, found, out):
        return found


class Recovered(Together):
    """The nonzeros, from products on one side or both."""

    def __init__(self, parts, name, colours, order=None):
        self._recovery = Recovery(colours, order=order)
        super().__init__(parts, name)

    @property
    def _output_shape(self):
        return (self._recovery.source.size,)

    @property
    def _estimated_time(self):
        """Of the products, and of what is done with them."""
        recovery = len(self._parts) * SPARSE_COSTS.products + SPARSE_COSTS.read * self._output_shape[0]
        return super()._estimated_time + recovery

    def _made_of(self, found, out):
        found = [np.ascontiguousarray(products) for products in found]
        return [self._recovery.values(found[0] if len(found) == 1 else tuple(found), None if out is None else out[0])]


class Sparse(dense.Derivative):
    """A sparse Jacobian or Hessian of a function: what is recorded and replayed.

    A call gives what makes the result, and the outputs that it makes it of.
    """

    def __init__(self, f, argnums, value, sparse, format, mode, order):
        super().__init__(f, argnums, value)
        self.sparse, self.format, self.mode, self.order = sparse, format, mode, order
        self.word = "hessian" if order == 2 else "jacobian"
        self.name = f"{self.word}({dense._name_of(f)})"

    @property
    def given(self) -> Given | None:
        """The pattern that was given."""
        return self.sparse if isinstance(self.sparse, Given) else None

    def __reduce__(self):
        options = (self.sparse, self.format, self.mode, self.order)
        return type(self), (self.f, self.argnums, self.with_value, *options)

    def __call__(self, *args, **kwargs):
        """As f is where it cannot be replayed: the dense derivative, of which the nonzeros are kept."""
        from scipy import sparse

        of = second.Hessian if self.order == 2 else dense.Jacobian
        found = of(self.f, self.argnums, self.with_value)(*args, **kwargs)
        y, matrix = found if self.with_value else (None, found)
        if children_of(matrix) is not None:
            raise TypeError(
                f"{self.name}: a sparse derivative is of one array in one array, not of or in a container: join its "
                "parts by numpy.concatenate, or take the dense derivative"
            )
        n = math.prod(np.shape(args[self.argnums]))
        matrix = np.reshape(matrix, (-1, n))
        given, why = self.given, "the function runs as it is, and is not replayed"
        if given is None:
            pattern = sparse.csr_array(matrix != 0)
            rows, columns = pattern.nonzero()
        else:
            given.require_shape(matrix.shape)
            pattern, rows, columns = given.pattern, given.rows, given.columns
            if np.count_nonzero(matrix) > np.count_nonzero(matrix[given.whole.nonzero()]):
                raise PatternError(f"{self.name}{place_of(self.f)}: {LEFT_OUT}")
        return Matrix(Plan("dense", pattern, None, why), self.format, given), [y, matrix[rows, columns]]

    def alternative(self, mode: str) -> Sparse:
        """The same derivative, computed in another mode and never as an ndarray."""
        sparse = True if isinstance(self.sparse, str) else self.sparse
        return Sparse(self.f, self.argnums, False, sparse, "csr", mode, self.order)

    # -- programs

    def of_program(self, program: Program) -> Program:
        """The program of the derivative, made of that of the function."""
        of_value = program
        if self.order == 2:
            program = program.grad(self.argnums)
        code, y = program._differentiable(self.word)
        x = code.inputs[program._input(self.word, self.argnums)]
        shape = math.prod(kind_of(code, y)[1]), math.prod(kind_of(code, x)[1])
        made, plan = self._planned(program, code, x, y, shape, of_value)
        keeps_out = not self.with_value  # of two outputs the values are not the first
        is_dense = plan.mode == "dense"
        result = Nonzeros(plan, keeps_out) if is_dense else Matrix(plan, self.format, self.given, keeps_out)
        if self.with_value:
            made = Together([of_value, made], self.name)
        made._result, result.program = result, made
        return made

    def _planned(self, program, code, x, y, shape, of_value):
        """The program that gives the values, and the plan."""
        given = self.given
        if given is not None:
            given.require_shape(shape)
            if given.colours is not None and self.mode == "auto":
                why = "by the colouring that was given"
                return self._by_products(program, given.mode, given.colours, given.pattern, why)
        if "accumulate" in program._disabled:
            why = "the pass accumulate is switched off"
        elif self.mode in _BY_ENTRIES:
            try:
                wanted = None if given is None else (given.rows, given.columns)
                found = entries(code, x, y, program._example, self.order == 2, wanted=wanted)
                pattern = _pattern(found.indptr, found.indices, shape) if given is None else given.pattern
                made = program._with_nonzeros(self.name, found.code)
                if self._is_dense_by_entries(pattern, made):
                    return self._dense(of_value, pattern)
                plan = Plan("direct", pattern, None, "entries are products of partials")
                return self._by_colours_if_faster(program, code, made, plan)
            except Refused as reason:
                why = f"no entries by themselves: {reason}"
        else:
            why = f"mode={self.mode!r} was asked for"
        pattern = pattern_of(of_value, self.argnums, self.order) if given is None else given.whole
        if isinstance(self.sparse, str) and pattern.nnz >= _FULL * math.prod(shape):
            return self._dense(of_value, pattern)
        mode, colours = self._coloured(pattern, program._operation_count)
        if self._is_dense(pattern, colours, program._operation_count):
            return self._dense(of_value, pattern)
        return self._by_products(program, mode, colours, pattern, why)

    def _by_products(self, program, mode, colours, pattern, why):
        """By products with the seeds of a colouring."""
        given = self.given
        sides = {"forward": ["column"], "reverse": ["row"], "mixed": ["column", "row"]}[mode]
        sides = ["column"] if self.order == 2 else sides
        parts = [Compressed(program, self.argnums, self.name, colours, side) for side in sides]
        order = (given.rows, given.columns) if given is not None and (given.is_triangle or given.is_ordered) else None
        pattern = pattern if given is None else given.pattern
        return Recovered(parts, self.name, colours, order), Plan(mode, pattern, colours, why)

    def _by_colours_if_faster(self, program, code, made, plan):
        """Entries, or products where these are estimated to be faster; no colours are sought where none could be."""
        if self.mode == "direct":
            return made, plan
        pattern = plan.pattern if self.given is None else self.given.whole
        f, of_entries = nanoseconds(code), nanoseconds(made._listing)
        width = pattern.nnz // max(1, *pattern.shape)  # on average, and the widest have no fewer
        if not is_coloured(of_entries, least_by_colours(f, width, pattern.nnz)):
            return made, plan
        by_products = self._by_products(
            program, *self._coloured(pattern, program._operation_count), pattern, "by the estimate faster than entries"
        )
        return by_products if is_coloured(made._estimated_time, by_products[0]._estimated_time) else (made, plan)

    def _is_dense_by_entries(self, pattern, program):
        """Is an ndarray better, which takes the same operations and has zeros?"""
        if not isinstance(self.sparse, str):
            return False
        zeros = math.prod(pattern.shape) - pattern.nnz
        return is_ndarray(program._operation_count, program._operation_count + SPARSE_COSTS.zero * zeros)

    def _is_dense(self, pattern, colours, f):
        """The same where that takes products with all units on one side."""
        if not isinstance(self.sparse, str):
            return False
        m, n = pattern.shape
        ways = ((n, 0), (0, m)) if self.order == 1 else ((n, 0),)
        units = min(units_cost(*way, f) for way in ways) + SPARSE_COSTS.nonzero * m * n
        return is_ndarray(_cost(colours, f) + SPARSE_COSTS.nonzero * pattern.nnz, units)

    def _dense(self, program, pattern):
        made = program.hessian(self.argnums) if self.order == 2 else program.jacobian(self.argnums)
        return made, Plan("dense", pattern, None, "small, or with few zeros")

    def _coloured(self, pattern, f):
        """The mode, and its colours: those that cost least, by the table of costs."""
        if self.order == 2:
            return "mixed", colouring(pattern, kind="star")
        m, n = pattern.shape
        of_row = int(np.diff(pattern.indptr).max(initial=0))
        of_column = int(np.bincount(pattern.indices, minlength=1).max())
        least = {  # so many colours are needed: where that costs more than another way, they need not be found
            "forward": ("column", units_cost(of_row, 0, f)),
            "reverse": ("row", units_cost(0, of_column, f)),
            "mixed": ("bidirectional", units_cost(-(-pattern.nnz // max(m, n, 1)), 0, f)),
        }
        ways = [(cost, mode, kind) for mode, (kind, cost) in least.items() if self.mode in (mode, *_BY_ENTRIES)]
        best, found = math.inf, None
        for cost, mode, kind in sorted(ways):
            if found is None or cost + SPARSE_COSTS.call < best:
                colours = colouring(pattern, kind=kind)
                if mode == "mixed" != self.mode and not (colours.row_count and colours.column_count):
                    mode = "reverse" if colours.row_count else "forward"  # no products of the other side are needed
                    colours = colouring(pattern, kind=least[mode][0])
                cost = _cost(colours, f)
                if cost < best:
                    best, found = cost, (mode, colours)
        return found


def _cost(colours, f):
    """What the products of a colouring take, in numbers computed, of which f computes `f`."""
    return products_cost(colours.column_count, colours.row_count, colours.shape, f)


def _pattern(indptr, indices, shape):
    from scipy import sparse

    found = sparse.csr_array((np.ones(len(indices), dtype=bool), indices, indptr), shape)
    found.has_canonical_format = True
    return found


class Replayed(Compiled):
    """A sparse derivative, replayed, and compared with the function by products in one direction.

    So the function itself is run as in `Compiled`, at the first call and at some later ones, and the dense derivative
    is computed nowhere.
    """

    _traced: tuple | None = None  # the outputs of a new program, until they are asked for

    def _call(self, args, kwargs, failed):
        out = kwargs.pop("out", None)
        result, found = super()._call(args, kwargs, failed)
        if out is not None:
            values = result.values(found)
            if np.shape(out) != values.shape:
                raise ValueError(f"{self.f.name}: out= has shape {np.shape(out)}, there are {values.size} nonzeros")
            out[...] = values
        return result, found

    def _trace(self, reading, args, kwargs, leaves, n):
        program = super()._trace(reading, args, kwargs, leaves, n)
        if isinstance(program, str):
            return program
        outputs = super()._first(program, leaves)
        self._compare(*program._result_of_outputs(outputs), self._product(reading, args, kwargs), leaves)
        self._traced = program, outputs
        return program

    def _derivative(self, args, kwargs):
        return UNKNOWN

    def _agrees(self, *args, **kwargs):
        return True  # it was compared when it was traced

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
            f"{self!r}: {self._name} now has another derivative than its recording: something it reads has changed "
            "that is not looked for at each call. Pass it as an argument, or hold it in a global or an attribute. The "
            "recordings have been dropped, the next call is right"
        )

    def _product(self, reading, args, kwargs):
        """The derivative of f itself in a direction, at other leaves too."""
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
        """Raise PatternError if the derivative is not that by products in one direction."""

        def nearby(rng):
            steps = 1 << int(rng.integers(*_STEPS))
            moved = [_moved(leaf, steps, rng) for leaf in leaves]
            result, found = result_of(moved)
            return result.whole(found), functools.partial(product, moved)

        op = self.f
        result_of = lambda leaves: result.program._result_of_outputs(result.program._execute(leaves))
        check(result.whole(found), functools.partial(product, leaves), op.name, op.f, nearby=nearby)


def _moved(leaf, most, rng):
    """Numbers up to so many units in the last place away; others as they are."""
    dtype = np.result_type(leaf)
    if dtype.kind not in "fc":
        return leaf
    steps = rng.integers(-most, most, np.shape(leaf), endpoint=True)
    found = leaf * (1.0 + steps * np.finfo(dtype).eps).astype(dtype)
    return found if isinstance(leaf, np.ndarray) else type(leaf)(found)


class SparseDerivative(dense.Derivative):
    """What ``jacobian(f, sparse=True)`` and ``hessian(f, sparse=True)`` return.

    Attributes
    ----------
    pattern, colours, mode, plan
        Of the last call: where the nonzeros are, a `Colouring` or None, and how they are computed.
    """

    def __init__(self, f, argnums=0, value=False, sparse=True, format="csr", mode="auto", order=1):
        word = "hessian" if order == 2 else "jacobian"
        modes = ("auto", "mixed") if order == 2 else ("auto", "forward", "reverse", "mixed")
        if mode not in modes:
            raise ValueError(f"{word}: mode of a sparse one is one of {', '.join(map(repr, modes))}, not {mode!r}")
        if format not in FORMATS:
            raise ValueError(f"{word}: format is one of {', '.join(map(repr, FORMATS))}, not {format!r}")
        if isinstance(sparse, str) and sparse != "auto":
            raise ValueError(f"{word}: sparse is True, False, 'auto' or a pattern, not {sparse!r}")
        if sparse is not True and not isinstance(sparse, (str, Given)):
            sparse = Given(sparse, order, word)
            if sparse.colours is not None and mode not in ("auto", sparse.mode):
                raise ValueError(
                    f"{word}: the products of a {sparse.colours.kind} colouring are {sparse.mode}, not mode={mode!r}"
                )
            mode = "auto" if sparse.colours is not None else mode
        if isinstance(argnums, bool) or not isinstance(argnums, (int, np.integer)) or argnums < 0:
            raise TypeError(f"{word}: a sparse derivative is in one argument, argnums={argnums!r} is no such number")
        options = {name: getattr(f, name) for name in _OPTIONS} if isinstance(f, Compiled) else {}
        f = f.f if isinstance(f, Compiled) else f
        super().__init__(f, int(argnums), value)
        self.word, self.name = word, f"{word}({dense._name_of(f)})"
        self.sparse, self.format, self.mode_asked, self.order = sparse, format, mode, order
        self._last: Nonzeros | None = None  # what made the last result
        self.replayed = Replayed(Sparse(f, int(argnums), value, sparse, format, mode, order), **options)

    def __repr__(self):
        shown = "pattern" if isinstance(self.sparse, Given) else repr(self.sparse)
        return f"{super().__repr__()[:-1]}, sparse={shown})"

    def __reduce__(self):
        options = (self.sparse, self.format, self.mode_asked, self.order)
        is_plain = all(getattr(self.replayed, name) == default for name, default in _OPTIONS.items())
        return type(self), (self.f if is_plain else self.fun, self.argnums, self.with_value, *options)

    def __call__(self, *args, out=None, **kwargs):
        if out is not None:
            raise TypeError(f"{self!r}: a sparse array has no out=: see values(x, out=)")
        result, found = self._found(args, kwargs)
        matrix = result.matrix(found)
        return (found[0], matrix) if self.with_value else matrix

    def _found(self, args, kwargs):
        """What makes the result, and the outputs."""
        if running.get():
            raise TypeError(
                f"{self!r}: a sparse derivative is not differentiated itself: take the dense one inside of another "
                "derivative, or hessian(f, sparse=True)"
            )
        result, found = self.replayed(*args, **kwargs)
        self._last = result
        return result, found

    @property
    def fun(self) -> Callable:
        """The function, compiled as the derivative is."""
        return Compiled(self.f, **{name: getattr(self.replayed, name) for name in _OPTIONS})

    def explained(self, args: tuple, kwargs: dict, measure: bool) -> Any:
        """What `wengert.explain` tells."""
        from wengert.sparse.explain import explained  # seldom asked for, and slow to import

        return explained(self, args, kwargs, measure)

    def values(self, *args: Any, out: np.ndarray | None = None, **kwargs: Any) -> np.ndarray:
        """The nonzeros alone, row by row, or in the order of a COO pattern that was given.

        Parameters
        ----------
        *args, **kwargs
            As for the function.
        out : ndarray, shape (nnz,), optional
            One of float64 in C order is written without a copy.

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
        """How the nonzeros were computed in the last call; None before the first."""
        return None if self._last is None else self._last.plan

    @property
    def pattern(self) -> Any:
        """Where the nonzeros of the last call are, a boolean csr_array."""
        return None if self.plan is None else self.plan.pattern

    @property
    def colours(self) -> Any:
        """The `Colouring` of the last call; None where it took none."""
        return None if self.plan is None else self.plan.colours

    @property
    def mode(self) -> str:
        """The mode of the last call, before it the one that was asked for."""
        return self.mode_asked if self.plan is None else self.plan.mode
