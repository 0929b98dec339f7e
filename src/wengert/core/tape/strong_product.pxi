# Products in which a factor that is exactly 0 gives 0, also times inf or NaN ("strong zero").

cdef extern from "sweep.h" nogil:
    void wg_strong(Py_ssize_t n, const double *g, const double *p, double *y)
    void wg_strong_scalar(Py_ssize_t n, const double *g, double p, double *y)


def strong_product(a, b):
    """``registry.strong`` of contiguous arrays of equal shape, or of such and scalars; None for other operands."""
    cdef double x = 0.0, y = 0.0
    if type(a) is np.ndarray and type(b) is np.ndarray and is_vector(a) and is_vector(b) and same_shape(a, b):
        return strong_of_arrays(a, b) if cnp.PyArray_NDIM(a) else None
    if type(a) is np.ndarray and cnp.PyArray_NDIM(a) and is_vector(a) and is_one_double(b, cnp.PyArray_NDIM(a), &y):
        return strong_by_scalar(a, y)
    if type(b) is np.ndarray and cnp.PyArray_NDIM(b) and is_vector(b) and is_one_double(a, cnp.PyArray_NDIM(b), &x):
        return strong_by_scalar(b, x)
    if is_one_double(a, -1, &x) and is_one_double(b, -1, &y):
        wg_strong_scalar(1, &x, y, &x)
        return np.float64(x)
    return None


cdef cnp.ndarray strong_of_arrays(cnp.ndarray a, cnp.ndarray b):
    cdef cnp.ndarray found = empty_array(cnp.PyArray_NDIM(a), cnp.PyArray_DIMS(a))
    wg_strong(cnp.PyArray_SIZE(a), <double *>cnp.PyArray_DATA(a), <double *>cnp.PyArray_DATA(b),
              <double *>cnp.PyArray_DATA(found))
    return found


cdef cnp.ndarray strong_by_scalar(cnp.ndarray a, double x):
    cdef cnp.ndarray found = empty_array(cnp.PyArray_NDIM(a), cnp.PyArray_DIMS(a))
    wg_strong_scalar(cnp.PyArray_SIZE(a), <double *>cnp.PyArray_DATA(a), x, <double *>cnp.PyArray_DATA(found))
    return found


cdef bint is_one_double(object x, int max_ndim, double *value):
    """Return whether `x` is a scalar, or an array of one element with at most `max_ndim` axes."""
    if type(x) is float or type(x) is np.float64:
        value[0] = x
        return True
    if type(x) is not np.ndarray or not is_double(x) or cnp.PyArray_SIZE(x) != 1 or cnp.PyArray_NDIM(x) > max_ndim:
        return False
    value[0] = (<double *>cnp.PyArray_DATA(<cnp.ndarray>x))[0]
    return True


cdef object product(object cotangent, object partial):
    """Cotangent times partial, where 0 times inf is 0; the cotangent itself where the partial is the float 1.0."""
    if type(partial) is float and partial == 1.0:
        return cotangent
    return strong(cotangent, partial)
