"""Programs that return the nonzeros of a Jacobian or Hessian, and their results.

The nonzeros are accumulated by a program of their own, or recovered from products with the seeds of a colouring.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from wengert.program.ir.verify import check_fields, check_sparse, expect
from wengert.program.program import Program
from wengert.program.signature import Result, Slot
from wengert.program.swept import Swept
from wengert.sparse.compression import Recovery
from wengert.transforms.costs import SPARSE_COSTS

#: maximum number of seeds in a batch that workers may share
MAX_SHARED_WIDTH = 8


class Nonzeros(Result):
    """Result of a sparse program: selects the nonzeros among its outputs.

    The last output holds the nonzeros; the value of the function precedes it if requested. A call returns this object
    with the outputs, so that the caller also gets the plan.
    """

    def __init__(self, plan, keeps_out=False):
        super().__init__(Slot(0))
        self.plan, self.keeps_out = plan, keeps_out
        self.program: Program | None = None  # the program that has this result

    def __call__(self, found):
        return self, found

    def values(self, found):
        """Return all nonzeros as a 1-D array, in the requested order."""
        return np.ravel(found[-1])

    def matrix(self, found):
        """Return the derivative in the form that the user requested."""
        return found[-1]

    def full_matrix(self, found):
        """Return the matrix with both triangles, for comparison with the function."""
        from scipy import sparse

        return sparse.csr_array(found[-1].reshape(self.plan.pattern.shape))


class Matrix(Nonzeros):
    """Result of a sparse program as a sparse array.

    All results share their index arrays, which are therefore read-only.
    """

    def __init__(self, plan, format, given=None, keeps_out=False):
        super().__init__(plan, keeps_out)
        self.is_triangle = given is not None and given.is_triangle
        self.source = None if given is None else given.source  # position among the values of each stored nonzero
        self.template = self._build_template(plan.pattern, format)

    def _build_template(self, pattern, format):
        """Build the sparse array that all results copy, with zeros as its data."""
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

    def _check_parts(self, program, verifier):
        super()._check_parts(program, verifier)
        check_fields(self, {"is_triangle": bool, "source": lambda x: x is None or type(x) is np.ndarray})
        check_sparse(self.template)
        part = program._parts[-1] if type(program) is CombinedProgram else program
        shape = part._output_shape if self.source is None else self.source.shape
        expect(shape == self.template.data.shape, "its matrix and its values differ in the number of nonzeros")

    def matrix(self, found):
        data = found[-1]
        made = object.__new__(type(self.template))  # skips the validation in SciPy's constructors
        made.__dict__.update(self.template.__dict__)
        made.data = data if self.source is None else data[self.source]
        return made

    def full_matrix(self, found):
        made = self.matrix(found).tocsr()
        if not self.is_triangle:
            return made
        twice = made + made.T
        twice.setdiag(made.diagonal())
        return twice


class Compressed(Swept):
    """Products with the seeds of a colouring, for its columns or its rows.

    Workers may share the batches of seeds: ``share(self)`` then returns an object whose method ``outputs`` replaces
    `_outputs`.
    """

    _share: Callable | None = None

    def __init__(self, program, argnums, name, colours, side, share=None):
        self._colours, self._side, self._share = colours, side, share
        count = colours.row_count if side == "row" else colours.column_count
        super().__init__(program, argnums, side == "row", name, count)

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "_share"}

    def _most_at_once(self):
        most = super()._most_at_once()
        return most if self._share is None else min(most, MAX_SHARED_WIDTH)

    @property
    def _shared(self):
        """The batches as workers share them; None without workers."""
        return None if self._share is None else self._memoised("shared", lambda: self._share(self))

    def _outputs(self, leaves, run):
        return super()._outputs(leaves, run) if self._share is None else self._shared.outputs(leaves, run)

    def _directions(self, first, stop):
        return self._colours.seeds(first, stop, side=self._side, dtype=self._dtype)

    def _assembled(self, products):
        return products


class CombinedProgram(Program):
    """Runs several programs of the same arguments, each with one output, and combines their outputs."""

    def __init__(self, parts, name):
        self._parts = parts
        one = parts[0]
        super().__init__(name, one._listing, one._form, one._result, one._exact, one._example, one._floats)
        self._disabled = one._disabled

    def _check_parts(self, verifier):
        check_fields(self, {"_parts": list})
        expect(self._parts, "it has no parts")
        for part in self._parts:
            expect(isinstance(part, Program), "a part is not a program")
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
        return lambda leaves, out=None: self._combined([part._execute(leaves)[0] for part in self._parts], out)

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
        return self._combined(found, out)

    def _guard_size(self, index):
        return 0  # of which part the guard is, is unknown

    _operation_count = property(lambda self: sum(part._operation_count for part in self._parts))
    _estimated_time = property(lambda self: sum(part._estimated_time for part in self._parts))
    _workspace_bytes = property(lambda self: sum(part._workspace_bytes for part in self._parts))

    def _combined(self, found, out):
        return found


class Recovered(CombinedProgram):
    """Nonzeros recovered from products with column seeds, row seeds or both."""

    def __init__(self, parts, name, colours, order=None):
        self._recovery = Recovery(colours, order=order)
        super().__init__(parts, name)

    @property
    def _output_shape(self):
        return (self._recovery.source.size,)

    @property
    def _estimated_time(self):
        """Estimated nanoseconds of the products and of the recovery."""
        recovery = len(self._parts) * SPARSE_COSTS.products + SPARSE_COSTS.read * self._output_shape[0]
        return super()._estimated_time + recovery

    def _combined(self, found, out):
        found = [np.ascontiguousarray(products) for products in found]
        return [self._recovery.values(found[0] if len(found) == 1 else tuple(found), None if out is None else out[0])]
