# Expansion rules for calls on small arrays; included by scalarise.pyx.
#
# A rule takes the pass, an instruction and its call, and returns the scalars of the result. A function names its rule
# in the registry column ``scalars``; `EXPANSIONS` maps these names to rules.

#: location reported by the guard on pivots: they may differ from LAPACK's by an ulp, so that f is called to decide
SINGULAR = "a matrix of numpy.linalg is singular"
#: location reported by the guard on norms: at infinity, the rule of ``norm`` gives NaN and that of the square root 0
INFINITE = "a norm of numpy.linalg is infinite"
cdef int SQRT = OPCODES["sqrt"]


def expand_product(Scalariser self, i, call):
    """Expand a product of small vectors or matrices; return its elements, or None if it does not match."""
    if product_of(call) is None:
        return None
    factors = [self.factor(call, argument) for argument in call.args]
    if None in factors:
        return None
    (first, left), (second, right) = factors
    if call.row.scalars == "matmul":
        first, second = squeeze_stack(first), squeeze_stack(second)
    if not (0 < len(first) <= 2 and 0 < len(second) <= 2):
        return None
    if len(first) + len(second) > 2 and call.row.scalars not in ("matmul", "dot"):
        return None
    rows, inner = (1, *first) if len(first) == 1 else first
    columns = second[1] if len(second) == 2 else 1
    if rows * inner * columns > MAX_PRODUCTS:
        return None
    left, right = left(), right()
    return [self.add_all([self.multiply(left[r * inner + k], right[k * columns + c]) for k in range(inner)])
            for r in range(rows) for c in range(columns)]


def squeeze_stack(tuple shape):
    """Drop leading axes of length 1 from a stack of one matrix."""
    return shape[-2:] if set(shape[:-2]) == {1} else shape


def expand_cross(Scalariser self, i, call):
    """Expand a cross product of two vectors."""
    if call.kwargs or len(call.args) != 2:
        return None
    factors = [self.factor(call, argument) for argument in call.args]
    if None in factors or [shape for shape, _ in factors] != [(3,), (3,)]:
        return None
    a, b = [line() for _, line in factors]
    return [self.subtract(self.multiply(a[j], b[k]), self.multiply(a[k], b[j])) for j, k in ((1, 2), (2, 0), (0, 1))]


def expand_norm(Scalariser self, i, call):
    if call.kwargs or len(call.args) != 1:
        return None
    found = self.factor(call, call.args[0], False, MAX_REDUCED)
    if found is None or len(found[0]) != 1:
        return None
    total = self.add_all([self.multiply(v, v) for v in found[1]()])
    if not self.to_run:
        self.squares.append(total)
    return [self.sqrt_or_zero(total)]


def reduction_rule(fold, values_alone=math.inf):
    """Make the expansion rule of a reduction; `fold` combines a list of new values into one.

    Reductions of `values_alone` or more elements are expanded only in programs that will not be differentiated.
    """
    def rule(Scalariser self, i, call):
        options = dict(call.kwargs)
        axes = options.pop("axis", None) if len(call.args) == 1 else call.args[1]
        options.pop("keepdims", None)
        if len(call.args) > 2 or options.pop("dtype", FLOAT) not in (None, float, FLOAT) or options:
            return None
        return expand_reduction(self, call, axes, fold, values_alone)

    return rule


def expand_reduction(Scalariser self, call, axes, fold, values_alone=math.inf):
    """Expand a reduction of the first argument along axes."""
    found = self.factor(call, call.args[0], True, MAX_REDUCED)
    if found is None or found[0] == ():
        return None
    shape, line = found
    axes = range(len(shape)) if axes is None else axes if type(axes) is tuple else (axes,)
    count = math.prod([shape[axis] for axis in axes])
    if count >= values_alone and not self.to_run:
        return None
    return [fold(self, terms) for terms in axes_last(np.reshape(line(), shape), axes).reshape(-1, count).tolist()]


def axes_last(array, axes):
    return np.moveaxis(array, axes, range(-len(axes), 0))


def sum_terms(Scalariser self, terms):
    return self.add_all(terms)


def mean_terms(Scalariser self, terms):
    return emit(self.found, WG_DIVIDE, self.add_all(terms), self.found.constant(len(terms)), -1, SCALAR)


def variance_rule(root):
    """Make the expansion rule of the variance, or of the standard deviation if `root` is true."""
    def rule(Scalariser self, i, call):
        options = dict(call.kwargs)
        less = options.pop("correction", 0) or options.pop("ddof", 0)
        axes = options.pop("axis", None) if len(call.args) == 1 else call.args[1]
        options.pop("keepdims", None)
        if len(call.args) > 2 or options or type(less) not in (int, float):
            return None
        return expand_reduction(self, call, axes, functools.partial(variance, less=less, root=root))

    return rule


def variance(Scalariser self, terms, less, root):
    mean = mean_terms(self, terms)
    changes = [self.subtract(term, mean) for term in terms]
    total = self.add_all([self.multiply(d, d) for d in changes])
    found = emit(self.found, WG_DIVIDE, total, self.found.constant(max(len(terms) - less, 0)), -1, SCALAR)
    return emit(self.found, SQRT, found, -1, -1, SCALAR) if root else found


def accumulation_rule(name):
    """Make the expansion rule of cumulative sums or products along an axis."""
    def rule(Scalariser self, i, call):
        options = dict(call.kwargs)
        axis = options.pop("axis", None) if len(call.args) == 1 else call.args[1]
        found = None if len(call.args) > 2 or options else self.factor(call, call.args[0])
        if found is None or found[0] == ():
            return None
        shape, line = found
        made = np.reshape(line(), shape if axis is not None else -1)
        rows = np.moveaxis(made, axis if axis is not None else 0, 0)
        for k in range(1, len(rows)):
            for at in np.ndindex(*rows.shape[1:]):
                last, here = int(rows[(k - 1, *at)]), int(rows[(k, *at)])
                rows[(k, *at)] = emit(self.found, OPCODES[name], last, here, -1, SCALAR)
        return made.ravel().tolist()

    return rule


def expand_clip(Scalariser self, i, call):
    """Expand ``np.clip`` between two bounds."""
    if call.kwargs or len(call.args) != 3:
        return None
    factors = [((), lambda x=x: [self.found.constant(x)]) if type(x) in (int, float, np.float64)
               else self.factor(call, x) for x in call.args]
    if None in factors:
        return None
    found, low, high = np.broadcast_arrays(*[np.reshape(line(), shape) for shape, line in factors])
    return [fold_left_by("minimum")(self, [fold_left_by("maximum")(self, [x, a]), b])
            for x, a, b in zip(found.ravel().tolist(), low.ravel().tolist(), high.ravel().tolist())]


def expand_einsum(Scalariser self, i, call):
    """Expand a sum of products, given by subscripts."""
    subscripts, *operands = call.args
    if call.kwargs.keys() - {"optimize"} or type(subscripts) is not str or "." in subscripts:
        return None
    inputs, _, output = subscripts.replace(" ", "").partition("->")
    inputs = inputs.split(",")
    if "->" not in subscripts:
        output = "".join(sorted(s for s in set("".join(inputs)) if "".join(inputs).count(s) == 1))
    factors = [self.factor(call, x, False, MAX_REDUCED) for x in operands]
    if None in factors or len(inputs) != len(factors):
        return None
    sizes = {}
    for word, (shape, _) in zip(inputs, factors):
        sizes |= dict(zip(word, shape, strict=True))
    summed = [s for s in sizes if s not in output]
    is_regular = all([sizes[s] == n for word, (shape, _) in zip(inputs, factors) for s, n in zip(word, shape)])
    if math.prod(sizes.values()) > MAX_PRODUCTS or not is_regular:      # irregular: an axis of length 1 is broadcast
        return None
    arrays = [np.reshape(line(), shape) for shape, line in factors]
    found = []
    for at in np.ndindex(*[sizes[s] for s in output]):
        terms = []
        for inner in np.ndindex(*[sizes[s] for s in summed]):
            of = dict(zip(output, at)) | dict(zip(summed, inner))
            terms.append(fold_left(self, [int(x[tuple([of[s] for s in word])]) for word, x in zip(inputs, arrays)],
                                   WG_MULTIPLY))
        found.append(self.add_all(terms))
    return found


def expand_interp(Scalariser self, i, call):
    """Expand ``np.interp`` with a small table of constant abscissas, as a selection among its intervals."""
    if call.kwargs or any([end is not None for end in call.args[3:]]):
        return None
    points, places, values = [self.factor(call, x) if k != 1 else x for k, x in enumerate(call.args[:3])]
    if points is None or values is None or type(places) is not np.ndarray or places.dtype != FLOAT:
        return None
    (shape, points), (_, values), n = points, values, places.size
    if n < 2 or math.prod(shape) * n > MAX_PRODUCTS or not (np.diff(places) > 0).all() or np.isinf(places).any():
        return None
    lines, values = [], values()
    at = [self.found.constant(x) for x in places.tolist()]
    for k in range(n - 1):
        rise, width = self.subtract(values[k + 1], values[k]), self.found.constant(places[k + 1] - places[k])
        lines.append(emit(self.found, WG_DIVIDE, rise, width, -1, SCALAR))
    return [interpolated(self, x, at, values, lines) for x in points()]


def interpolated(Scalariser self, x, at, values, slopes):
    """Emit the interpolant at x; at an abscissa of the table, its slope is that of the interval on the right."""
    found = -1
    for k, slope in enumerate(slopes):
        here = emit(self.found, WG_ADD, self.multiply(slope, self.subtract(x, at[k])), values[k], -1, SCALAR)
        if k:
            is_after = emit(self.found, GREATER_EQUAL, x, at[k], -1, FLAG)
            here = emit(self.found, SELECT, is_after, here, found, SCALAR)
        found = here
    for op, end in ((LESS, 0), (GREATER, -1)):
        is_outside = emit(self.found, op, x, at[end], -1, FLAG)
        found = emit(self.found, SELECT, is_outside, values[end], found, SCALAR)
    return found


def expand_trace(Scalariser self, i, call):
    found = self.factor(call, call.args[0], False, MAX_REDUCED)
    if call.kwargs or len(call.args) != 1 or found is None or len(found[0]) != 2:
        return None
    shape, line = found
    return [self.add_all(np.diagonal(np.reshape(line(), shape)).tolist())]


def fold_left(Scalariser self, terms, int op):
    cdef int32_t found = terms[0], term
    for term in terms[1:]:
        found = emit(self.found, op, found, term, -1, SCALAR)
    return found


def fold_left_by(name):
    return lambda self, terms: fold_left(self, terms, OPCODES[name])


def finite_max(Scalariser self, terms):
    """Emit the maximum, or 0 if that is not finite."""
    top = fold_left(self, terms, OPCODES["maximum"])
    size = emit(self.found, OPCODES["absolute"], top, -1, -1, SCALAR)
    is_finite = emit(self.found, LESS, size, self.found.constant(math.inf), -1, FLAG)
    return emit(self.found, SELECT, is_finite, top, self.found.constant(0.0), SCALAR)


def log_sum_exp(Scalariser self, terms):
    """Emit log(sum(exp(terms))), pairwise as ``np.logaddexp`` does it, which is accurate for results near 0."""
    found = terms[0]
    for term in terms[1:]:
        top = emit(self.found, OPCODES["maximum"], found, term, -1, SCALAR)
        low = emit(self.found, OPCODES["minimum"], found, term, -1, SCALAR)
        ratio = emit(self.found, OPCODES["exp"], self.subtract(low, top), -1, -1, SCALAR)
        more = emit(self.found, OPCODES["log1p"], ratio, -1, -1, SCALAR)
        is_same = emit(self.found, EQUAL, found, term, -1, FLAG)      # includes equal infinities
        more = emit(self.found, SELECT, is_same, self.found.constant(math.log(2.0)), more, SCALAR)
        found = emit(self.found, WG_ADD, top, more, -1, SCALAR)
    return found


def expand_log_sum_exp(Scalariser self, i, call):
    """Expand ``log_sum`` with unit weights."""
    _, b, axes = call.args
    if type(b) is not np.ndarray or not (b == 1.0).all():
        return None
    return expand_reduction(self, call, axes, log_sum_exp)


def expand_logaddexp(Scalariser self, i, call):
    factors = [self.factor(call, argument) for argument in call.args]
    if call.kwargs or len(factors) != 2 or None in factors:
        return None
    columns = np.broadcast_arrays(*[np.reshape(line(), shape) for shape, line in factors])
    return [log_sum_exp(self, pair) for pair in zip(*[column.ravel().tolist() for column in columns])]


def exponentials(Scalariser self, terms, top):
    """Emit exp(term - top) for each term, and their sum."""
    found = [emit(self.found, OPCODES["exp"], self.subtract(term, top), -1, -1, SCALAR) for term in terms]
    return found, self.add_all(found)


def softmax(Scalariser self, terms):
    found, total = exponentials(self, terms, fold_left(self, terms, OPCODES["maximum"]))
    return [emit(self.found, WG_DIVIDE, e, total, -1, SCALAR) for e in found]


def log_softmax(Scalariser self, terms):
    top = finite_max(self, terms)
    _, total = exponentials(self, terms, top)
    log = emit(self.found, OPCODES["log"], total, -1, -1, SCALAR)
    return [self.subtract(self.subtract(term, top), log) for term in terms]


def normalisation_rule(share):
    """Make the expansion rule of a normalisation along axes; `share` maps the terms of one sum to their results."""
    def rule(Scalariser self, i, call):
        found = self.factor(call, call.args[0])
        if found is None or found[0] == ():
            return None
        shape, line = found
        made = np.empty(shape, int)
        ids, places = [axes_last(x, call.args[1]) for x in (np.reshape(line(), shape), made)]
        for at in np.ndindex(*ids.shape[:ids.ndim - len(call.args[1])]):
            places[at] = np.reshape(share(self, ids[at].ravel().tolist()), ids[at].shape)
        return made.ravel().tolist()

    return rule


def expand_solve(Scalariser self, i, call):
    """Expand the solution of a small system by Gaussian elimination with partial pivoting, as in LAPACK."""
    found = small_matrix(self, call)
    if found is None or len(call.args) != 2:
        return None
    right = self.factor(call, call.args[1])
    if right is None or len(right[0]) not in (1, 2):
        return None
    rows = np.hstack([found, np.reshape(right[1](), (len(found), -1))]).tolist()
    return list(itertools.chain(*solve_rows(self, rows)))


def expand_inverse(Scalariser self, i, call):
    found = small_matrix(self, call)
    if found is None:
        return None
    unit = [[self.found.constant(j == k) for k in range(len(found))] for j in range(len(found))]
    return list(itertools.chain(*solve_rows(self, np.hstack([found, unit]).tolist())))


def expand_determinant(Scalariser self, i, call):
    """Expand the determinant of a small matrix, the signed product of the pivots."""
    found = small_matrix(self, call)
    if found is None:
        return None
    rows = found.tolist()
    sign = eliminate(self, rows)
    return [fold_left(self, [sign, *[row[k] for k, row in enumerate(rows)]], WG_MULTIPLY)]


def expand_slogdet(Scalariser self, i, call):
    """Expand sign and log of the absolute value of a determinant, as one array of two elements."""
    found = small_matrix(self, call)
    if found is None:
        return None
    rows = found.tolist()
    sign, logs = eliminate(self, rows), []
    zero, minus = self.found.constant(0.0), self.found.constant(-1.0)
    for k, row in enumerate(rows):
        size = emit(self.found, OPCODES["absolute"], row[k], -1, -1, SCALAR)
        logs.append(emit(self.found, OPCODES["log"], size, -1, -1, SCALAR))
        is_negative = emit(self.found, LESS, row[k], zero, -1, FLAG)
        is_zero = emit(self.found, EQUAL, row[k], zero, -1, FLAG)
        here = emit(self.found, SELECT, is_negative, minus, self.found.constant(1.0), SCALAR)
        sign = self.multiply(sign, emit(self.found, SELECT, is_zero, zero, here, SCALAR))
    return [sign, self.add_all(logs)]


def small_matrix(Scalariser self, call):
    """Return the elements of the first argument if it is a small square matrix, else None."""
    found = self.factor(call, call.args[0])
    if found is None or call.kwargs:
        return None
    shape, line = found
    return np.reshape(line(), shape) if len(shape) == 2 and 0 < shape[0] == shape[1] <= MAX_EQUATIONS else None


def eliminate(Scalariser self, list rows):
    """Reduce the rows of an augmented matrix to upper triangular form in place; return the sign of the permutation.

    The pivot is the largest element of its column; if it is 0, all elements below it are 0 or NaN.
    """
    cdef Py_ssize_t k, r, c, n = len(rows)
    zero, minus = self.found.constant(0.0), self.found.constant(-1.0)
    sign = self.found.constant(1.0)
    for k in range(n - 1):
        for r in range(k + 1, n):
            size, other = [emit(self.found, OPCODES["absolute"], rows[j][k], -1, -1, SCALAR) for j in (k, r)]
            is_less = emit(self.found, LESS, size, other, -1, FLAG)
            for c in range(k, len(rows[k])):
                above, below = rows[k][c], rows[r][c]
                rows[k][c] = emit(self.found, SELECT, is_less, below, above, SCALAR)
                rows[r][c] = emit(self.found, SELECT, is_less, above, below, SCALAR)
            sign = self.multiply(sign, emit(self.found, SELECT, is_less, minus, self.found.constant(1.0), SCALAR))
        for r in range(k + 1, n):
            factor = emit(self.found, WG_DIVIDE, rows[r][k], rows[k][k], -1, SCALAR)
            is_zero = emit(self.found, EQUAL, rows[r][k], zero, -1, FLAG)
            factor = emit(self.found, SELECT, is_zero, zero, factor, SCALAR)
            for c in range(k + 1, len(rows[k])):
                rows[r][c] = self.subtract(rows[r][c], self.multiply(factor, rows[k][c]))
    return sign


def solve_rows(Scalariser self, list rows):
    """Solve a linear system, given as an augmented matrix; a guard rejects zero pivots, for which NumPy raises."""
    cdef Py_ssize_t k, r, n = len(rows)
    eliminate(self, rows)
    zero, is_singular = self.found.constant(0.0), -1
    for k in range(n):
        is_zero = emit(self.found, EQUAL, rows[k][k], zero, -1, FLAG)
        is_singular = is_zero if k == 0 else emit(self.found, OR, is_singular, is_zero, -1, FLAG)
    self.found.guard(is_singular, False, SINGULAR)
    found = [row[n:] for row in rows]
    for k in range(n - 1, -1, -1):
        for r in range(k + 1, n):
            found[k] = [self.subtract(a, self.multiply(rows[k][r], b)) for a, b in zip(found[k], found[r])]
        found[k] = [emit(self.found, WG_DIVIDE, a, rows[k][k], -1, SCALAR) for a in found[k]]
    return found


def logical_rule(int op):
    """Make the expansion rule of ``any`` or ``all``, given the opcode OR or AND."""
    def rule(Scalariser self, i, call):
        if call.kwargs or len(call.args) != 1 or type(call.args[0]) is not Operand:
            return None
        v = call.operands[call.args[0].position]
        if self.code.kinds[v] == FLAG:
            return [self.of[<Py_ssize_t>v]]
        if self.order(v) is None or self.dtype(v) != BOOL or not self.ordered(v):
            return None
        found, *rest = self.ordered(v)
        for flag in rest:
            found = emit(self.found, op, found, flag, -1, FLAG)
        return [found]

    return rule


def expand_rearrangement(Scalariser self, call):
    """Expand a rearrangement by applying it to element ids, from 1; id 0 marks constants that it inserts."""
    values, zeros = [], {}

    def numbers(argument):
        if type(argument) is not Operand:
            return np.zeros(np.shape(argument), int)
        shape, line = self.factor(call, argument) or (None, None)
        if shape is None:
            raise Unknown
        zeros[argument.position] = np.zeros(shape)
        first = len(values) + 1
        values.extend(line())
        return np.arange(first, len(values) + 1).reshape(shape)

    try:
        where = access.rearranged(call, numbers, lambda _: None)
    except Unknown:
        return None
    if where is None:
        return None
    where = np.ravel(where).tolist()
    if 0 not in where:
        return [values[k - 1] for k in where]
    own = np.ravel(call.compute(*filled(call.args, zeros), **{k: filled(x, zeros) for k, x in call.kwargs.items()}))
    return [values[k - 1] if k else self.found.constant(x) for k, x in zip(where, own)]


def scalar_element(Scalariser self, v):
    return [self.of[<Py_ssize_t>v]]


def array_elements(Scalariser self, v):
    return self.ordered(v)


def loaded_elements(Scalariser self, v):
    dtype, _, strides = type = self.code.types[self.code.kinds[<Py_ssize_t>v]]
    order = list(range(math.prod(type[1]))) if strides is None else view_offsets(whole_view(type), dtype.itemsize)
    found = self.loads(v, order)
    return [found[place] for place in order]


def bool_elements(Scalariser self, v):
    cdef int32_t one = self.found.constant(1.0), zero = self.found.constant(0.0), flag
    return [emit(self.found, SELECT, flag, one, zero, SCALAR) for flag in self.ordered(v)]


def constant_elements(Scalariser self, array):
    return [self.found.constant(x) for x in array.ravel().tolist()]


#: expansion rules by their names in the registry column ``scalars``
cdef dict EXPANSIONS = {
    **dict.fromkeys(PRODUCTS, expand_product),
    "cross": expand_cross,
    "norm": expand_norm,
    "sum": reduction_rule(sum_terms),
    "mean": reduction_rule(mean_terms),
    "prod": reduction_rule(fold_left_by("multiply")),
    "cumsum": accumulation_rule("add"),
    "cumprod": accumulation_rule("multiply"),
    "einsum": expand_einsum,
    "interp": expand_interp,
    "trace": expand_trace,
    "max": reduction_rule(fold_left_by("maximum"), 3),
    "min": reduction_rule(fold_left_by("minimum"), 3),
}
#: rules for programs that are not differentiated: unlike the derivative rules of these functions, derivatives of the
#: expansions do not handle ties, infinities and singular matrices
cdef dict EXPANSIONS_TO_RUN = {
    "var": variance_rule(False),
    "std": variance_rule(True),
    "clip": expand_clip,
    "logaddexp of all": reduction_rule(log_sum_exp),
    "finite maximum": reduction_rule(finite_max),
    "log sum exp": expand_log_sum_exp,
    "logaddexp": expand_logaddexp,
    "softmax": normalisation_rule(softmax),
    "log softmax": normalisation_rule(log_softmax),
    "solve": expand_solve,
    "inverse": expand_inverse,
    "determinant": expand_determinant,
    "log determinant": expand_slogdet,
    "any": logical_rule(OR),
    "all": logical_rule(AND),
}
#: values of `Primitive.scalars` that have a rule here
WORDS = frozenset((*EXPANSIONS, *EXPANSIONS_TO_RUN))
