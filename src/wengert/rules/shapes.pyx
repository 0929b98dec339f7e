# cython: language_level=3, boundscheck=False, wraparound=False
"""Numbers of axes and shapes in rules, without NumPy's dispatch for plain arrays and scalars.

A rule asks for them several times, and on small arrays ``numpy.ndim`` costs as much as the arithmetic.
A cotangent or tangent may have `lead` more axes than the value it belongs to: it then stacks several directions,
and the extra axes come first.
"""

cimport cython
cimport numpy as cnp
from libc.math cimport exp, exp2, hypot, isfinite, isinf

import numpy as np

cnp.import_array()

cdef type ndarray = np.ndarray, float64 = np.float64
cdef object no_value = np._NoValue, add_reduce = np.add.reduce


cpdef Py_ssize_t ndim_of(x) except -1:
    """Return ``numpy.ndim(x)``."""
    if type(x) is ndarray:
        return cnp.PyArray_NDIM(<cnp.ndarray>x)
    if type(x) is float64 or type(x) is float:
        return 0
    return np.ndim(x)


cpdef tuple shape_of(x):
    """Return ``numpy.shape(x)``."""
    if type(x) is ndarray:
        return (<object>x).shape
    if type(x) is float64 or type(x) is float:
        return ()
    return np.shape(x)


cpdef Py_ssize_t leading(ybar, y) except? -1:
    """Return the number of extra leading axes of the cotangent (or tangent) `ybar` of `y`."""
    return ndim_of(ybar) - ndim_of(y)


def lead_shape(t, x):
    """Return the shape of the extra leading axes of the tangent (or cotangent) `t` of `x`."""
    cdef Py_ssize_t lead = leading(t, x)
    return shape_of(t)[:lead] if lead > 0 else ()


def from_end(axis, Py_ssize_t ndim):
    """Return axes as a tuple of negative integers; None selects all, and a 0-d array ignores `axis`."""
    if axis is None or ndim == 0:
        return tuple(range(-ndim, 0))
    if type(axis) is int:
        return (axis if axis < 0 else axis - ndim,)
    axes = axis if isinstance(axis, tuple) else (axis,)
    return tuple([i if i < 0 else i - ndim for i in axes])


def length(x, axis):
    """Return the number of elements along the axes that a reduction of `x` goes over."""
    cdef Py_ssize_t count = 1
    sizes = shape_of(x)
    for i in from_end(axis, len(sizes)):
        count *= sizes[len(sizes) + i]
    return count


def is_kept(keepdims):
    """Return whether a reduction keeps its axes; NumPy's ``_NoValue`` marker is truthy but means no."""
    return keepdims is not no_value and bool(keepdims)


def restore(z, x, axis=None, keepdims=False):
    """Reinsert into `z` the axes that a reduction of `x` removed, with length 1; a scalar needs none to broadcast."""
    cdef Py_ssize_t count
    if (keepdims is not no_value and keepdims) or type(z) is float64 or ndim_of(x) == 0:
        return z
    count = ndim_of(x)
    if type(z) is ndarray and axis is None:
        return z.reshape(z.shape + (1,) * count)
    if type(z) is ndarray and type(axis) is int:
        sizes = z.shape
        at = len(sizes) + 1 + (axis if axis < 0 else axis - count)
        return z.reshape(sizes[:at] + (1,) + sizes[at:])
    return np.expand_dims(z, from_end(axis, count))


def unbroadcast(z, x, Py_ssize_t lead=0):
    """Sum `z` over the axes along which `x` was broadcast: the transpose of broadcasting."""
    cdef tuple own = shape_of(x), given = shape_of(z)
    cdef Py_ssize_t extra = len(given) - lead - len(own), i
    if extra == 0 and given[lead:] == own:
        return z
    if extra > 0:
        z = summed(z, tuple(range(lead, lead + extra)))
        given = shape_of(z)
    ones = tuple([i - len(own) for i in range(len(own)) if own[i] == 1 != given[len(given) - len(own) + i]])
    return summed(z, ones, True) if ones else z


# ---- NumPy's functions, called as methods of plain arrays


def reshaped(x, shape):
    """Return ``numpy.reshape(x, shape)``."""
    return x.reshape(shape) if type(x) is ndarray else np.reshape(x, shape)


def raveled(x):
    """Return ``numpy.ravel(x)``."""
    return x.ravel() if type(x) is ndarray else np.ravel(x)


def swapped_axes(x, i, j):
    """Return ``numpy.swapaxes(x, i, j)``."""
    return x.swapaxes(i, j) if type(x) is ndarray else np.swapaxes(x, i, j)


def moved_axis(x, source, destination):
    """Return ``numpy.moveaxis(x, source, destination)``."""
    cdef Py_ssize_t n
    if type(x) is ndarray and type(source) is type(destination) is tuple:
        if source == from_end(destination, cnp.PyArray_NDIM(<cnp.ndarray>x)):
            return x
    if type(x) is ndarray and type(source) is int and type(destination) is int:
        n = cnp.PyArray_NDIM(<cnp.ndarray>x)
        if -n <= source < n and -n <= destination < n and (source - destination) % n == 0:
            return x
        if -n <= source < n and -n <= destination < n and abs(source % n - destination % n) == 1:
            return x.swapaxes(source, destination)
    return np.moveaxis(x, source, destination)


def flipped(x, axis):
    """Return ``numpy.flip(x, axis)``."""
    if type(x) is ndarray and type(axis) is int:
        if axis == -1:
            return x[..., ::-1]
        return x.swapaxes(axis, -1)[..., ::-1].swapaxes(axis, -1)
    return np.flip(x, axis)


def summed(x, axis=None, keepdims=False):
    """Return ``numpy.sum(x, axis=axis, keepdims=keepdims)``."""
    if type(x) is ndarray:
        return add_reduce(x, axis, None, None, keepdims)
    return np.sum(x, axis=axis, keepdims=keepdims)


def averaged(x, axis):
    """Return ``numpy.mean(x, axis=axis, keepdims=True)``."""
    if type(x) is ndarray and cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_DOUBLE and cnp.PyArray_SIZE(x):
        return add_reduce(x, axis, None, None, True) / length(x, axis)
    return np.mean(x, axis=axis, keepdims=True)


def exclusive_products(a):
    """Return the exclusive cumulative products of a plain float64 vector in NumPy's order, or None for others."""
    cdef cnp.ndarray y
    cdef Py_ssize_t i, n, step
    cdef const char *source
    cdef double *found
    cdef double product = 1.0
    if (type(a) is not ndarray or cnp.PyArray_NDIM(<cnp.ndarray>a) != 1
            or cnp.PyArray_TYPE(<cnp.ndarray>a) != cnp.NPY_DOUBLE or not cnp.PyArray_ISBEHAVED_RO(<cnp.ndarray>a)):
        return None
    n = cnp.PyArray_DIM(<cnp.ndarray>a, 0)
    y = <cnp.ndarray>cnp.PyArray_EMPTY(1, cnp.PyArray_DIMS(<cnp.ndarray>a), cnp.NPY_DOUBLE, 0)
    found = <double *>cnp.PyArray_DATA(y)
    source = <const char *>cnp.PyArray_DATA(<cnp.ndarray>a)
    step = cnp.PyArray_STRIDE(<cnp.ndarray>a, 0)
    for i in range(n):
        found[i] = product
        product = product * (<const double *>(source + i * step))[0]
    return y


# ---- piecewise linear interpolation at plain arrays


cdef struct Table:                      # points in increasing order, without NaN
    const double *x
    Py_ssize_t n


cdef bint is_plain(x) except -1:
    """Return whether `x` is a float64 array in C order."""
    return (type(x) is ndarray and cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_DOUBLE
            and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>x))


cdef bint read_table(Table *table, xp) except -1:
    """Return whether a table of at least two points is plain and not decreasing, and if so fill `table`."""
    cdef Py_ssize_t k
    if not is_plain(xp) or cnp.PyArray_NDIM(<cnp.ndarray>xp) != 1 or len(xp) < 2:
        return False
    table.x, table.n = <const double *>cnp.PyArray_DATA(<cnp.ndarray>xp), len(xp)
    for k in range(table.n - 1):
        if not table.x[k] <= table.x[k + 1]:
            return False
    return True


cdef Py_ssize_t interval(const Table *table, double x) noexcept:
    """Return the interval of a place, as ``numpy.searchsorted(xp, x, "right") - 1`` within the table; last for NaN."""
    cdef Py_ssize_t low = 0, high = table.n, middle
    while low < high:
        middle = (low + high) // 2
        if x < table.x[middle]:
            high = middle
        else:
            low = middle + 1
    return min(max(low - 1, 0), table.n - 2)


@cython.cdivision(True)
def interpolation_slopes(x, xp, fp):
    """Return the slope of the interpolant at each place, 0 beyond the ends; None if an array is not plain."""
    cdef Table table
    cdef Py_ssize_t k, i, count
    cdef const double *places
    cdef const double *values
    cdef double *found
    if not is_plain(x) or not is_plain(fp) or not read_table(&table, xp) or len(fp) != table.n:
        return None
    y = np.empty(shape_of(x))
    places = <const double *>cnp.PyArray_DATA(<cnp.ndarray>x)
    values, found = <const double *>cnp.PyArray_DATA(<cnp.ndarray>fp), <double *>cnp.PyArray_DATA(<cnp.ndarray>y)
    count = cnp.PyArray_SIZE(<cnp.ndarray>x)
    for k in range(count):
        i = interval(&table, places[k])
        if places[k] != places[k]:
            found[k] = places[k]
        elif places[k] < table.x[0] or places[k] > table.x[table.n - 1]:
            found[k] = 0.0
        else:
            found[k] = (values[i + 1] - values[i]) / (table.x[i + 1] - table.x[i])
    return y


@cython.cdivision(True)
def even_bins(x, edges):
    """Return the 1-based bin of each sample between equally spaced edges, or None if an array is not plain.

    The arithmetic is that of ``numpy.histogram``: a quotient, whose rounding errors are corrected at the edges.
    Samples outside all bins are in bin 0.
    """
    cdef Py_ssize_t i, k, n
    cdef const double *samples
    cdef const double *bounds
    cdef cnp.int64_t *found
    cdef double first, last, width
    if not is_plain(x) or not is_plain(edges) or len(edges) < 2:
        return None
    places = np.empty(shape_of(x), np.int64)
    samples = <const double *>cnp.PyArray_DATA(<cnp.ndarray>x)
    bounds = <const double *>cnp.PyArray_DATA(<cnp.ndarray>edges)
    found = <cnp.int64_t *>cnp.PyArray_DATA(<cnp.ndarray>places)
    n = len(edges) - 1
    first, last = bounds[0], bounds[n]
    width = last - first
    for i in range(cnp.PyArray_SIZE(<cnp.ndarray>x)):
        if not (first <= samples[i] <= last):
            found[i] = 0
            continue
        k = min(<Py_ssize_t>((samples[i] - first) / width * n), n - 1)
        if samples[i] < bounds[k]:
            k -= 1
        elif k < n - 1 and samples[i] >= bounds[k + 1]:
            k += 1
        found[i] = k + 1
    return places


cdef double strong_product(double a, double b) noexcept:
    return 0.0 if a == 0.0 or b == 0.0 else a * b


@cython.cdivision(True)
def interpolated_values(ybar, x, xp):
    """Return the cotangent of the values of a table for the cotangent `ybar`; None if an array is not plain."""
    cdef Table table
    cdef Py_ssize_t k, i, count = 1
    cdef double place, cotangent
    cdef const double *places = &place
    cdef const double *g = &cotangent
    cdef double *low
    cdef double *high
    cdef double share, width
    if type(x) is float64 or type(x) is float:
        if type(ybar) is not float64 or not read_table(&table, xp):
            return None
        place, cotangent = x, ybar
    elif not is_plain(x) or not is_plain(ybar) or shape_of(ybar) != shape_of(x) or not read_table(&table, xp):
        return None
    else:
        places = <const double *>cnp.PyArray_DATA(<cnp.ndarray>x)
        g = <const double *>cnp.PyArray_DATA(<cnp.ndarray>ybar)
        count = cnp.PyArray_SIZE(<cnp.ndarray>x)
    cdef cnp.npy_intp[2] shape = [2, table.n]
    cdef cnp.ndarray z = cnp.PyArray_ZEROS(2, shape, cnp.NPY_DOUBLE, 0)     # summed in the order of the general rule
    low = <double *>cnp.PyArray_DATA(z)
    high = low + table.n
    for k in range(count):
        i = interval(&table, places[k])
        width = table.x[i + 1] - table.x[i]
        share = (places[k] - table.x[i]) / width if width > 0.0 else 0.0
        if places[k] < table.x[0]:
            share = 0.0
        elif places[k] > table.x[table.n - 1]:
            share = 1.0
        low[i] += strong_product(g[k], 1.0 - share)
        high[i + 1] += strong_product(g[k], share)
    for i in range(table.n):
        low[i] += high[i]
    return z[0].copy()


# ---- partials of functions of two operands at plain arrays

ctypedef double (*Partial)(double a, double b, double parameter) noexcept


@cython.cdivision(True)
cdef double logaddexp_share(double a, double b, double rate) noexcept:
    """Return exp(a) / (exp(a) + exp(b)) as ``wengert.rules.elementwise.logaddexp_weight`` does."""
    cdef double gap = 0.0 if isinf(a) and a == b else b - a, taken = gap - b
    cdef double lost = (b - (gap - taken)) - (a + taken), ratio
    cdef bint is_less = gap > 0.0
    if is_less:
        gap, lost = -gap, -lost
    ratio = exp(gap) if rate == 1.0 else exp2(gap)
    if isfinite(lost):
        ratio *= 1.0 + rate * lost
    return ratio / (1.0 + ratio) if is_less else 1.0 / (1.0 + ratio)


@cython.cdivision(True)
cdef double arctan2_slope(double a, double b, double side) noexcept:
    """Return the partial of ``arctan2`` in `a`, or in `b` if `side` is 1."""
    cdef double radius = hypot(a, b)
    if radius == 0.0 or isinf(radius):
        return 0.0 * (a + b) if a != a or b != b else 0.0
    return (-a if side == 1.0 else b) / radius / radius


cdef object partials(Partial partial, a, b, double parameter):
    """Return a partial at each element; None unless every operand is a scalar, or a plain array of one common shape."""
    cdef Py_ssize_t k
    cdef Py_ssize_t[2] steps
    cdef double[2] scalars
    cdef const double *at[2]
    cdef double *found
    cdef object like = None
    for k, x in enumerate((a, b)):
        if type(x) is float64 or type(x) is float:
            scalars[k] = x
            at[k], steps[k] = &scalars[k], 0
        elif is_plain(x) and (like is None or shape_of(x) == shape_of(like)):
            at[k], steps[k], like = <const double *>cnp.PyArray_DATA(<cnp.ndarray>x), 1, x
        else:
            return None
    if like is None:
        return float64(partial(scalars[0], scalars[1], parameter))
    y = np.empty(shape_of(like))
    found = <double *>cnp.PyArray_DATA(<cnp.ndarray>y)
    for k in range(cnp.PyArray_SIZE(<cnp.ndarray>y)):
        found[k] = partial(at[0][k * steps[0]], at[1][k * steps[1]], parameter)
    return y


def logaddexp_partials(a, b, rate):
    """Return the partials of ``logaddexp`` in `a`, or of ``logaddexp2`` for rate log(2); None for other arrays."""
    return partials(logaddexp_share, a, b, rate)


def arctan2_partials(a, b, side):
    """Return the partials of ``arctan2`` in operand 0 or 1; None if an array is not plain."""
    return partials(arctan2_slope, a, b, side)
