"""Native calls of products, linear algebra and Fourier transforms."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from wengert.features import eig_is_complex, lapack_loop
from wengert.program.ir import access
from wengert.program.ir.ir import c_strides
from wengert.program.ir.native_operands import (
    COMPLEX,
    DOUBLE,
    MAX_AXES,
    MAX_ORDER,
    MAX_PRODUCTS,
    PRODUCT,
    NativeCall,
    Packed,
    Unsupported,
    options_of,
    packed,
    rows_of,
)

# ---------------------------------------------------------------------------------------------- products


def _strong(call, given, dtype, shape):
    if dtype not in (DOUBLE, COMPLEX) or len(call.args) != 2 or call.kwargs:
        return None
    operands = [packed(given, x, dtype, shape) for x in call.args]
    params = math.prod(shape), dtype == COMPLEX
    return NativeCall("strong", (*operands,), params, dtype, work=2 * PRODUCT * math.prod(shape))


def _convolution(is_correlation):
    def rule(call, given, dtype, shape):
        options = options_of(call, "a", "v", "mode")
        operands = [packed(given, options[key], DOUBLE) for key in ("a", "v")]
        mode = options.get("mode", "valid" if is_correlation else "full")
        if any(len(x.shape) != 1 for x in operands) or mode not in ("full", "same", "valid"):
            return None
        if operands[0].shape < operands[1].shape:
            if is_correlation:
                return None
            operands.reverse()
        (m,), (n,) = operands[0].shape, operands[1].shape
        if is_correlation:
            shift, way = {"full": 1 - n, "same": -(n // 2), "valid": 0}[mode], 1
        else:
            shift, way = {"full": 0, "same": (n - 1) // 2, "valid": n - 1}[mode], -1
        if not n or n * shape[0] > MAX_PRODUCTS:
            return None
        return NativeCall("convolve", (*operands,), (m, n, *shape, shift, way), work=PRODUCT * n * shape[0])

    return rule


#: products that conjugate their first factor
_CONJUGATING = {np.vdot, np.vecdot, np.linalg.vecdot, getattr(np, "vecmat", np.vecdot)}


def contraction(call, given, dtype, shape):
    """Sum products over the labels of a contraction."""
    found = access.factors(call, lambda x: len(given(x)[1]))
    conjugates = call.row.fun in _CONJUGATING
    return _sum_of_products(given, *found, dtype, shape, conjugates) if found is not None else None


def _kron(call, given, dtype, shape):
    a, b = options_of(call, "a", "b").values()
    if len(given(a)[1]) != 2 or len(given(b)[1]) != 2:
        return None
    return _sum_of_products(given, (a, b), ((0, 1), (2, 3)), (0, 2, 1, 3), dtype, shape)


def _sum_of_products(given, arguments, labels, result, dtype, shape, conjugates=False):
    if dtype not in (DOUBLE, COMPLEX):
        return None
    operands = [packed(given, x, dtype) for x in arguments]
    shapes = [x.shape if len(word) == len(x.shape) else (math.prod(x.shape),) for word, x in zip(labels, operands)]
    if any(len(word) != len(own) for word, own in zip(labels, shapes)):
        return None
    sizes: dict = {}
    for word, own in zip(labels, shapes):
        for label, n in zip(word, own):
            sizes[label] = n if n != 1 else sizes.get(label, 1)
    result = [*result]
    order = [*result, *[label for label in sizes if label not in result]]
    regular = all(n in (1, sizes[label]) for word, own in zip(labels, shapes) for label, n in zip(word, own))
    if len({*result}) < len(result) or not {*result} <= sizes.keys() or not regular or len(order) > MAX_AXES:
        return None
    count = math.prod(sizes.values())
    if count > MAX_PRODUCTS or math.prod([sizes[label] for label in result]) != math.prod(shape):
        return None
    steps = _label_steps(result, [sizes[label] for label in result], order)
    for word, own in zip(labels, shapes):
        steps += _label_steps(word, own, order)
    kind = 0 if dtype == DOUBLE else 2 if conjugates else 1
    params = len(order), math.prod(shape), kind, *[sizes[label] for label in order], *steps
    work = (8 if kind else 2) * PRODUCT * count * len(operands)
    return NativeCall("contract", (*operands,), params, dtype, work=work)


def _label_steps(word, shape, order):
    """Return the stride, in elements, of each label in an array in C order."""
    steps = dict.fromkeys(order, 0)
    step = 1
    for label, n in zip(reversed([*word]), reversed(shape)):
        steps[label] += step if n > 1 else 0
        step *= n
    return [steps[label] for label in order]


# ---------------------------------------------------------------------------------------------- linear algebra


def _matrices(given, argument, dtype=DOUBLE):
    """Return an operand that is a stack of small square matrices, their number, and their order."""
    operand = packed(given, argument, dtype)
    if len(operand.shape) < 2 or operand.shape[-1] != operand.shape[-2] or not 0 < operand.shape[-1] <= MAX_ORDER:
        raise Unsupported
    return operand, math.prod(operand.shape[:-2]), operand.shape[-1]


def _cubes(count, n, factor=1.0):
    """Estimate the time to factor matrices."""
    return factor * count * (n**3 * PRODUCT + 5.0 * n)


def _solve(call, given, dtype, shape):
    a, b = options_of(call, "a", "b").values()
    _, _, n = _matrices(given, a)
    own = given(b)[1]
    lines, m = (shape[:-2], shape[-1]) if len(own) > 1 else (shape[:-1], 1)
    operands = packed(given, a, DOUBLE, (*lines, n, n)), packed(given, b, DOUBLE, shape)
    if shape != ((*lines, n, m) if len(own) > 1 else (*lines, n)):
        return None
    count = math.prod(lines)
    return NativeCall("solve", operands, (count, n, m), spare=n * n + n, work=_cubes(count, n) + count * n * n * m)


def _matrixwise(kernel, *params, spare=True):
    def rule(call, given, dtype, shape):
        operand, count, n = _matrices(given, *options_of(call, "a").values())
        spared = n * n + n if spare else 0
        return NativeCall(kernel, (operand,), (count, n, *params), spare=spared, work=_cubes(count, n, 2.0))

    return rule


def _cholesky(call, given, dtype, shape):
    options = options_of(call, "a", "upper")
    operand, count, n = _matrices(given, options["a"])
    is_upper = options.get("upper", False)
    return NativeCall("cholesky", (operand,), (count, n, is_upper is True), work=_cubes(count, n))


def _cholesky_of_triangle(call, given, dtype, shape):
    options = options_of(call, "a", "lower")
    operand, count, n = _matrices(given, options["a"])
    if type(options["lower"]) is not bool:
        return None
    return NativeCall("cholesky", (operand,), (count, n, not options["lower"]), work=_cubes(count, n))


def _cholesky_adjoint(call, given, dtype, shape):
    operands = [packed(given, x, DOUBLE, shape) for x in options_of(call, "factor", "g").values()]
    _, count, n = _matrices(lambda _: (DOUBLE, shape), None)
    return NativeCall("cholesky adjoint", (*operands,), (count, n), work=_cubes(count, n, 3.0))


def _qr(call, given, dtype, shape):
    options = options_of(call, "a", "mode")
    operand = packed(given, options["a"], DOUBLE)
    if not _is_small_matrix(operand) or options["mode"] not in ("reduced", "complete"):
        return None
    m, n = operand.shape
    width = m if options["mode"] == "complete" else min(m, n)
    return NativeCall("qr", (operand,), (m, n, width), spare=m * n + n + m, work=_cubes(1, max(m, n), 4.0))


def _qr_by_loops(call, given, dtype, shape):
    found = _qr(call, given, dtype, shape)
    if found is None:
        return None
    m, n, width = found.params
    reflectors = lapack_loop("qr_r_raw") or lapack_loop("qr_r_raw_m" if m <= n else "qr_r_raw_n")
    factor = lapack_loop("qr_complete" if width > min(m, n) else "qr_reduced")
    if any(fun is None or f"{types}->d" not in fun.types for fun, types in ((reflectors, "d"), (factor, "dd"))):
        return None
    matrix, scales = (m, n), (min(m, n),)
    first = _loop_layout(reflectors, (matrix, scales), (DOUBLE,) * 2)
    second = _loop_layout(factor, (matrix, scales, (m, width)), (DOUBLE,) * 3)
    params = m, n, width, len(first[0]), len(first[1]), len(second[0]), *first[0], *first[1], *second[0], *second[1]
    loops = (reflectors, (DOUBLE,) * 2), (factor, (DOUBLE,) * 3)
    return found._replace(kernel="qr by loops", params=params, loops=loops, work=2000.0 + found.work)


def _is_small_matrix(operand):
    """Return whether an operand is a nonempty matrix of at most `MAX_ORDER` rows and columns."""
    return len(operand.shape) == 2 and 0 < min(operand.shape) <= max(operand.shape) <= MAX_ORDER


def _linalg_loop(name, operand, results, dtype=DOUBLE):
    """Run NumPy's own loop on one matrix, because the signs of singular vectors depend on the algorithm.

    `results` are the shapes of its results, which share one array of `dtype`.
    """
    fun = lapack_loop(name)
    if fun is None or f"{operand.dtype.char}->{dtype.char * len(results)}" not in fun.types:
        return None
    counts = [*map(math.prod, results)]
    offsets = [dtype.itemsize * sum(counts[:k]) for k in range(len(counts))]
    dtypes = operand.dtype, *[dtype] * len(results)
    dims, steps = _loop_layout(fun, (operand.shape, *results), dtypes)
    params = 1, len(results), len(dims), *offsets, *dims, *steps
    work = 1000.0 + _cubes(1, max(operand.shape), 20.0)
    return NativeCall("loop", (operand,), params, dtype, loops=((fun, dtypes),), work=work)


def _loop_layout(fun, shapes, dtypes):
    """Return dimensions and steps for one call of a generalised ufunc on arrays in C order."""
    sizes: dict = {}
    for labels, shape in zip(re.findall(r"\((.*?)\)", fun.signature), shapes):
        sizes.update(zip(labels.replace(" ", "").split(","), shape))
    steps = [step for shape, dtype in zip(shapes, dtypes) for step in c_strides(shape, dtype.itemsize)]
    return (1, *sizes.values()), (*[0] * len(shapes), *steps)


def _solve_by_loop(call, given, dtype, shape):
    a, b = options_of(call, "a", "b").values()
    operand, _, n = _matrices(given, a)
    right = packed(given, b, DOUBLE)
    if len(operand.shape) != 2 or len(right.shape) not in (1, 2) or shape != right.shape or not math.prod(shape):
        return None
    fun = lapack_loop("solve1" if len(shape) == 1 else "solve")
    if fun is None or "dd->d" not in fun.types:
        return None
    steps = 8 * n, 8, *((8,) if len(shape) == 1 else (8 * shape[1], 8)) * 2
    params = 1, 1, 1 + len(shape), 0, 1, *shape, *[0] * 3, *steps
    loops = ((fun, (DOUBLE,) * 3),)
    return NativeCall("loop", (operand, right), params, loops=loops, work=1000.0 + _cubes(1, n))


def _matrix_by_loop(name, to_scalar=False):
    def rule(call, given, dtype, shape):
        options = options_of(call, "a", "upper")
        operand, _, n = _matrices(given, options["a"], dtype)
        upper = options.get("upper", False)
        if len(operand.shape) != 2 or type(upper) is not bool:
            return None
        word = name if name != "cholesky" else "cholesky_up" if upper else "cholesky_lo"
        return _linalg_loop(word, operand, [() if to_scalar else (n, n)], dtype)

    return rule


def _inverse(call, given, dtype, shape):
    return (_INVERSE_BY_LOOP if dtype == COMPLEX else _OWN_INVERSE)(call, given, dtype, shape)


def _eig(with_vectors):
    def rule(call, given, dtype, shape):
        a = options_of(call, "a")["a"]
        kind = given(a)[0]
        operand, _, n = _matrices(given, a, COMPLEX if kind == COMPLEX else DOUBLE)
        if len(operand.shape) != 2 or dtype != COMPLEX:
            return None
        name, results = ("eig", [(n,), (n, n)]) if with_vectors else ("eigvals", [(n,)])
        found = _linalg_loop(name, operand, results, COMPLEX)
        if found is None:
            return None
        may_be_real = operand.dtype == DOUBLE and not eig_is_complex()
        params = n * n * operand.dtype.itemsize // 8, n if may_be_real else 0, *found.params
        return found._replace(kernel="eigen", params=params, work=2 * found.work)

    return rule


def _eigh(with_vectors):
    def rule(call, given, dtype, shape):
        options = options_of(call, "a", "UPLO", "of_values")
        operand, _, n = _matrices(given, options["a"])
        triangle = _TRIANGLES.get(options.get("UPLO", "L"))
        if triangle is None or len(operand.shape) != 2:
            return None
        if not with_vectors:
            return _linalg_loop(f"eigvalsh_{triangle}", operand, [(n,)])
        return _linalg_loop(f"eigh_{triangle}", operand, [(n,), (n, n)])

    return rule


def _svd(call, given, dtype, shape):
    options = options_of(call, "a", "full_matrices", "of_values")
    operand = packed(given, options["a"], DOUBLE)
    if not _is_small_matrix(operand):
        return None
    (m, n), k = operand.shape, min(operand.shape)
    if options["full_matrices"]:
        return _linalg_loop("svd_f", operand, [(m, m), (k,), (n, n)])
    return _linalg_loop("svd_s", operand, [(m, k), (k,), (k, n)])


def _lstsq(call, given, dtype, shape):
    """Run NumPy's loop for least squares; the length of the result tells whether it includes the squared residuals."""
    options = options_of(call, "a", "b", "rcond")
    a, b = packed(given, options["a"], DOUBLE), packed(given, options["b"], DOUBLE)
    rcond = options["rcond"]
    if len(a.shape) != 2 or len(b.shape) not in (1, 2) or not min(*a.shape, *b.shape):
        return None
    (m, n), sides, k = a.shape, math.prod(b.shape) // a.shape[0], min(a.shape)
    if max(k, sides) > MAX_ORDER or type(rcond) not in (type(None), int, float):
        return None
    rcond = max(m, n) * float(np.finfo(float).eps) if rcond is None else float(rcond)
    count = shape[0] - 1 - n * sides - k
    fun = lapack_loop("lstsq")
    if fun is None or "ddd->ddid" not in fun.types or count not in (0, sides):
        return None
    steps = 8 * n, 8, 8 * sides, 8, 8 * sides, 8, 8, 8
    params = n, m, sides, count > 0, 1, m, n, sides, k, *[0] * 7, *steps
    loop = fun, (*[DOUBLE] * 5, np.dtype(np.intc), DOUBLE)
    operands = a, b, Packed(np.array(rcond), DOUBLE, ())
    work = 4000.0 + _cubes(1, max(k, sides), 20.0)
    return NativeCall("lstsq", operands, params, spare=sides, loops=(loop,), work=work)


def _pinv(call, given, dtype, shape):
    options = options_of(call, "a", "rcond", "rtol")
    operand = packed(given, options["a"], DOUBLE)
    if not _is_small_matrix(operand):
        return None
    (m, n), k = operand.shape, min(operand.shape)
    fun = lapack_loop("svd_s")
    rcond = options.get("rcond")
    if rcond is None and "rtol" in options:
        rcond = max(m, n) * float(np.finfo(float).eps) if options["rtol"] is None else options["rtol"]
    elif rcond is None:
        rcond = 1e-15
    elif "rtol" in options:
        return None
    if fun is None or "d->ddd" not in fun.types or type(rcond) not in (int, float):
        return None
    params = m, n, 1, m, n, k, *[0] * 4, *[8 * d for d in (n, 1, k, 1, 1, n, 1)]
    operands = operand, Packed(np.array(float(rcond)), DOUBLE, ())
    work = 1000.0 + _cubes(1, max(m, n), 20.0)
    loops = ((fun, (DOUBLE,) * 4),)
    return NativeCall("pinv", operands, params, spare=k * (m + n + 1), loops=loops, work=work)


def _svdvals(call, given, dtype, shape):
    operand = packed(given, *options_of(call, "x").values(), DOUBLE)
    if not _is_small_matrix(operand):
        return None
    return _linalg_loop("svd", operand, [(min(operand.shape),)])


_TRIANGLES = {"L": "lo", "U": "up", "l": "lo", "u": "up"}


# ---------------------------------------------------------------------------------------------- Fourier transforms


def _transform(name):
    """Run NumPy's own loop of a Fourier transform along one axis."""

    def rule(call, given, dtype, shape):
        options = options_of(call, "a", "n", "axis", "norm")
        axis = options.get("axis", -1)
        kind = DOUBLE if name == "rfft" else COMPLEX
        operand, others, rows, own = rows_of(given, options["a"], axis, kind)
        axis = axis % len(shape)
        length = shape[axis] if name != "rfft" else options.get("n")
        length = own if length is None else length
        fun = _fourier(name if name != "rfft" else f"rfft_n_{'odd' if length % 2 else 'even'}")
        signature = (kind, DOUBLE, dtype)
        if fun is None or type(length) is not int or not own or dtype != (DOUBLE if name == "irfft" else COMPLEX):
            return None
        norm = options.get("norm") or "backward"
        if norm not in ("backward", "ortho", "forward"):
            return None
        divides = norm == ("forward" if name in ("fft", "rfft") else "backward")
        factor = 1.0 / math.sqrt(length) if norm == "ortho" else 1.0 / length if divides else 1.0
        step_in, step_out, count = kind.itemsize, dtype.itemsize, shape[axis]
        params = (0, 1, 3, 0, rows, own, count, step_in * own, 0, step_out * count, step_in, step_out)
        operands = operand, Packed(np.array(factor), DOUBLE, ())
        work = 300.0 + PRODUCT * rows * length * math.log2(length + 1) * 4
        return NativeCall("loop", operands, params, dtype, (*others, axis), loops=((fun, signature),), work=work)

    return rule


def _fourier(name):
    return getattr(getattr(np.fft, "_pocketfft_umath", None), name, None)  # private, so it may disappear


_OWN_INVERSE, _INVERSE_BY_LOOP = _matrixwise("inverse"), _matrix_by_loop("inv")

#: rules by NumPy's own loops, for exact programs
EXACT_RULES: dict[str, Callable] = {
    "solve": _solve_by_loop,
    "inverse": _INVERSE_BY_LOOP,
    "qr": _qr_by_loops,
    "determinant": _matrix_by_loop("det", to_scalar=True),
    "cholesky": _matrix_by_loop("cholesky"),
}


#: rules by the registry column ``native``, or else by ``scalars``
RULES: dict[str, Callable] = {
    "strong": _strong,
    "convolve": _convolution(False),
    "correlate": _convolution(True),
    "solve": _solve,
    "inverse": _inverse,
    "determinant": _matrixwise("determinant", 0),
    "log determinant": _matrixwise("determinant", 1),
    "cholesky": _cholesky,
    "cholesky of triangle": _cholesky_of_triangle,
    "cholesky adjoint": _cholesky_adjoint,
    "qr": _qr,
    "eigh": _eigh(True),
    "eigvalsh": _eigh(False),
    "eig": _eig(True),
    "eigvals": _eig(False),
    "svd": _svd,
    "svdvals": _svdvals,
    "lstsq": _lstsq,
    "pinv": _pinv,
    "kron": _kron,
    **{name: _transform(name) for name in ("fft", "ifft", "rfft", "irfft")},
}
