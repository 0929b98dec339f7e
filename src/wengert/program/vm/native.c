/* Native calls: packing of operands, and kernels that move, sort, accumulate and multiply elements. */
#include "native.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

/* ---- packing */

#define WG_CONVERTED(NAME, FROM, TO, VALUE)                                    \
    case NAME:                                                                 \
        for (j = 0; j < inner; j++) {                                          \
            const FROM a = *(const FROM *)(from + j * step_from);              \
            *(TO *)(to + j * step_to) = VALUE;                                 \
        }                                                                      \
        break;

typedef struct {
    double re, im;
} wg_complex;

static void wg_convert(int conversion, const char *from, ptrdiff_t step_from, char *to, ptrdiff_t step_to,
                       ptrdiff_t inner) {
    ptrdiff_t j;
    switch (conversion) {
        WG_CONVERTED(WG_SAME_1, char, char, a)
        WG_CONVERTED(WG_SAME_8, double, double, a)
        WG_CONVERTED(WG_SAME_16, wg_complex, wg_complex, a)
        WG_CONVERTED(WG_BOOL_INT, char, int64_t, a != 0)
        WG_CONVERTED(WG_BOOL_DOUBLE, char, double, a != 0)
        WG_CONVERTED(WG_INT_DOUBLE, int64_t, double, (double)a)
        WG_CONVERTED(WG_DOUBLE_BOOL, double, char, a != 0.0)
        WG_CONVERTED(WG_DOUBLE_INT, double, int64_t, a != 0.0) /* slots store flags as doubles */
    default: /* WG_DOUBLE_COMPLEX */
        for (j = 0; j < inner; j++) {
            const wg_complex z = {*(const double *)(from + j * step_from), 0.0};
            *(wg_complex *)(to + j * step_to) = z;
        }
    }
}

static ptrdiff_t wg_itemsize(int conversion) {
    return conversion == WG_SAME_1 || conversion == WG_DOUBLE_BOOL                ? 1
           : conversion == WG_SAME_16 || conversion == WG_DOUBLE_COMPLEX ? 16 : 8;
}

/* Copy between strided memory at `array` and contiguous memory at `line`. */
static void wg_pack(const wg_operand *x, char *array, char *line, int to_array) {
    const int last = x->ndim - 1;
    const ptrdiff_t inner = last >= 0 ? x->shape[last] : 1, step = last >= 0 ? x->strides[last] : 0;
    const ptrdiff_t item = wg_itemsize(x->conversion);
    ptrdiff_t index[WG_MAX_AXES] = {0}, left = x->size;
    int d;
    while (left > 0) {
        if (to_array)
            wg_convert(x->conversion, line, item, array, step, inner);
        else
            wg_convert(x->conversion, array, step, line, item, inner);
        line += inner * item;
        left -= inner;
        for (d = last - 1; d >= 0; d--) {
            array += x->strides[d];
            if (++index[d] < x->shape[d]) break;
            array -= x->shape[d] * x->strides[d];
            index[d] = 0;
        }
    }
}

int wg_call_native(const wg_native *call, double *slots, char **where, char *memory) {
    char *in[WG_MAX_OPERANDS], *out, *line = memory;
    const wg_operand *y = &call->result;
    int k, declined;
    for (k = 0; k < call->count; k++) {
        const wg_operand *x = &call->operands[k];
        char *from = x->array >= 0 ? where[x->array] : x->slot >= 0 ? (char *)&slots[x->slot] : (char *)x->constant;
        if (x->is_packed)
            in[k] = from;
        else {
            wg_pack(x, from, line, 0);
            in[k] = line;
        }
        line += x->bytes;
    }
    out = !y->is_packed ? line : y->array >= 0 ? where[y->array] : (char *)&slots[y->slot];
    declined = call->run(call, in, out, memory + call->spare);
    if (!declined && !y->is_packed) {
        if (y->array >= 0)
            wg_pack(y, where[y->array], line, 1);
        else
            slots[y->slot] = *line != 0; /* a flag */
    }
    return declined;
}

/* ---- NumPy's own loops. Parameters: whether the loop reports errors by FE_INVALID, number of results, number of
 * dimensions, then the offsets of the results in bytes, the dimensions and the steps. */

static void wg_loop(const wg_native *call, int k, char **args, const int64_t *dims, const int64_t *steps) {
    call->loops[k].run(args, (const ptrdiff_t *)dims, (const ptrdiff_t *)steps, call->loops[k].data);
}

static int wg_run_loop(const wg_native *call, const int64_t *p, char **in, char *out) {
    const int results = (int)p[1], dims = (int)p[2];
    char *args[WG_MAX_OPERANDS + 4];
    int k;
    for (k = 0; k < call->count; k++) args[k] = in[k];
    for (k = 0; k < results; k++) args[call->count + k] = out + p[3 + k];
    if (p[0]) feclearexcept(FE_INVALID);
    wg_loop(call, 0, args, p + 3 + results, p + 3 + results + dims);
    return p[0] && fetestexcept(FE_INVALID) != 0;
}

static WG_KERNEL(wg_loop_of_ufunc) {
    return wg_run_loop(call, call->params, in, out);
}

/* Eigenvalues of a general matrix, and then its eigenvectors if requested. Parameters: doubles in the matrix; order if
 * NumPy returns real arrays where all eigenvalues are real, else 0; then those of `wg_run_loop`.
 * Declines elements that are not finite, and eigenvalues that NumPy would return as real ones. */
static WG_KERNEL(wg_eigen) {
    const int64_t *p = call->params;
    const double *a = (const double *)in[0], *w = (const double *)out;
    int64_t i;
    for (i = 0; i < p[0]; i++)
        if (!(fabs(a[i]) < INFINITY)) return 1;
    if (wg_run_loop(call, p + 2, in, out)) return 1;
    for (i = 0; i < p[1]; i++)
        if (w[2 * i + 1] != 0.0) return 0;
    return p[1] > 0;
}

/* QR factorisation by NumPy's two loops, for the reflectors and for Q; Q (m, width) and then R (width, n).
 * Parameters: m, n, width, lengths of the next three items; dimensions and steps of the first loop, and of the second. */
static WG_KERNEL(wg_qr_by_loops) {
    const int64_t *p = call->params, *dims = p + 6, m = p[0], n = p[1], width = p[2];
    double *a = (double *)spare, *tau = a + m * n, *r = (double *)out + m * width;
    char *args[3] = {spare, (char *)tau, out};
    int64_t i, j;
    memcpy(a, in[0], (size_t)(m * n) * sizeof(double));
    feclearexcept(FE_INVALID);
    wg_loop(call, 0, args, dims, dims + p[3]);
    if (fetestexcept(FE_INVALID)) return 1;
    dims += p[3] + p[4];
    wg_loop(call, 1, args, dims, dims + p[5]);
    for (i = 0; i < width; i++)
        for (j = 0; j < n; j++) r[i * n + j] = j < i ? 0.0 : a[i * n + j];
    return fetestexcept(FE_INVALID) != 0;
}

/* Least squares by NumPy's loop. Parameters: unknowns, equations, right-hand sides, whether to return sums of squared
 * residuals, then dimensions and steps. Result: rank, solution, singular values, and these sums if requested.
 * Declines if the loop fails, or if the rank does not match the request: NumPy returns the sums only for full rank. */
static WG_KERNEL(wg_lstsq) {
    const int64_t *p = call->params, unknowns = p[0], equations = p[1], sides = p[2];
    const int64_t values = unknowns < equations ? unknowns : equations;
    double *y = (double *)out, *s = y + 1 + unknowns * sides;
    int rank = 0;
    char *args[7] = {in[0], in[1], in[2], (char *)(y + 1), p[3] ? (char *)(s + values) : spare, (char *)&rank, (char *)s};
    feclearexcept(FE_INVALID);
    wg_loop(call, 0, args, p + 4, p + 9);
    y[0] = rank;
    return fetestexcept(FE_INVALID) != 0 || (rank == unknowns && equations > unknowns) != (p[3] != 0);
}

/* Pseudo-inverse of a matrix by NumPy's loop for singular values. Parameters: rows, columns, then dimensions and steps.
 * The second operand is the cutoff, relative to the largest singular value. */
static WG_KERNEL(wg_pinv) {
    const int64_t *p = call->params, m = p[0], n = p[1], k = m < n ? m : n;
    double *u = (double *)spare, *s = u + m * k, *vt = s + k, *y = (double *)out, largest;
    char *args[4] = {in[0], (char *)u, (char *)s, (char *)vt};
    int64_t i, j, l;
    feclearexcept(FE_INVALID);
    wg_loop(call, 0, args, p + 2, p + 6);
    if (fetestexcept(FE_INVALID)) return 1;
    largest = s[0]; /* in descending order */
    for (l = 0; l < k; l++) {
        if (s[l] != s[l]) return 1;
        s[l] = s[l] > *(const double *)in[1] * largest ? 1.0 / s[l] : 0.0;
    }
    for (i = 0; i < n; i++)
        for (j = 0; j < m; j++, y++)
            for (*y = 0.0, l = 0; l < k; l++) *y += vt[l * n + i] * (s[l] * u[j * k + l]);
    return 0;
}

/* Truncation to integers. Parameter: length. Declines values outside the range of int64. */
static WG_KERNEL(wg_truncate) {
    const double *x = (const double *)in[0];
    int64_t *y = (int64_t *)out, i;
    for (i = 0; i < call->params[0]; i++) {
        if (!(x[i] > -0x1p63 && x[i] < 0x1p63)) return 1;
        y[i] = (int64_t)x[i];
    }
    return 0;
}

/* ---- reductions and accumulations of rows. Parameters: rows, length, function. */

enum { WG_F_ANY, WG_F_ALL, WG_F_COUNT, WG_F_MAX, WG_F_MIN, WG_F_ADD, WG_F_MULTIPLY, WG_F_LARGEST, WG_F_LEAST, WG_F_SUM,
       WG_F_LENGTH, WG_F_MEAN };

static WG_KERNEL(wg_count) {
    const int64_t rows = call->params[0], n = call->params[1], op = call->params[2];
    const char *x = in[0];
    int64_t i, j;
    for (i = 0; i < rows; i++, x += n) {
        int64_t count = 0;
        for (j = 0; j < n; j++) count += x[j] != 0;
        if (op == WG_F_COUNT)
            ((int64_t *)out)[i] = count;
        else
            out[i] = op == WG_F_ALL ? count == n : count > 0;
    }
    return 0;
}

/* Fourth parameter: the initial value. NaN propagates, since comparisons with it are false. */
static WG_KERNEL(wg_fold) {
    const int64_t rows = call->params[0], n = call->params[1], op = call->params[2];
    const double *x = (const double *)in[0];
    double *y = (double *)out, first;
    int64_t i, j;
    memcpy(&first, &call->params[3], sizeof first);
    for (i = 0; i < rows; i++, x += n) {
        double s = first;
        switch (op) {
#define WG_FOLD_BY(next)                   \
    for (j = 0; j < n; j++) s = next;      \
    break;
        case WG_F_MAX: WG_FOLD_BY(s >= x[j] || s != s ? s : x[j])
        case WG_F_MIN: WG_FOLD_BY(s <= x[j] || s != s ? s : x[j])
        case WG_F_LARGEST: WG_FOLD_BY(s >= fabs(x[j]) || s != s ? s : fabs(x[j]))
        case WG_F_LEAST: WG_FOLD_BY(s <= fabs(x[j]) || s != s ? s : fabs(x[j]))
        case WG_F_ADD: case WG_F_MEAN: WG_FOLD_BY(s + x[j])
        case WG_F_SUM: WG_FOLD_BY(s + fabs(x[j]))
        case WG_F_LENGTH: WG_FOLD_BY(s + x[j] * x[j])
        default: WG_FOLD_BY(s * x[j])
        }
        y[i] = op == WG_F_MEAN ? s / (double)n : op == WG_F_LENGTH ? sqrt(s) : s;
    }
    return 0;
}

/* Sums of complex numbers, or their largest absolute values. */
static WG_KERNEL(wg_complex_fold) {
    const int64_t rows = call->params[0], n = call->params[1], op = call->params[2];
    const double *x = (const double *)in[0];
    double *y = (double *)out;
    int64_t i, j;
    for (i = 0; i < rows; i++, x += 2 * n) {
        double s = 0.0, imag = 0.0;
        for (j = 0; j < n; j++) {
            const double length = op == WG_F_ADD ? 0.0 : hypot(x[2 * j], x[2 * j + 1]);
            if (op == WG_F_ADD) {
                s += x[2 * j];
                imag += x[2 * j + 1];
            } else
                s = s >= length || s != s ? s : length;
        }
        *y++ = s;
        if (op == WG_F_ADD) *y++ = imag;
    }
    return 0;
}

static WG_KERNEL(wg_accumulate) {
    const int64_t rows = call->params[0], n = call->params[1], op = call->params[2];
    const double *x = (const double *)in[0];
    double *y = (double *)out;
    int64_t i, j;
    for (i = 0; i < rows; i++, x += n, y += n) {
        double s = y[0] = x[0];
        for (j = 1; j < n; j++) y[j] = s = op == WG_F_ADD ? s + x[j] : s * x[j];
    }
    return 0;
}

/* ---- sorting and searching. Parameters: rows, length. */

/* A before B; NaN comes last. */
#define WG_BEFORE(A, B) ((A) < (B) || ((B) != (B) && (A) == (A)))

/* Stable insertion sort of the indices of a row; returns whether two elements are equal. */
static int wg_order(const double *x, int64_t n, int64_t *order) {
    int64_t j, k;
    int ties = 0;
    for (j = 0; j < n; j++) {
        for (k = j; k > 0 && WG_BEFORE(x[j], x[order[k - 1]]); k--) order[k] = order[k - 1];
        ties |= k > 0 && !WG_BEFORE(x[order[k - 1]], x[j]);
        order[k] = j;
    }
    return ties;
}

/* Third parameter: whether to decline rows with ties, whose order NumPy does not define. */
static WG_KERNEL(wg_argsort) {
    const int64_t rows = call->params[0], n = call->params[1];
    int64_t i;
    for (i = 0; i < rows; i++)
        if (wg_order((const double *)in[0] + i * n, n, (int64_t *)out + i * n) && call->params[2]) return 1;
    return 0;
}

static WG_KERNEL(wg_sort) {
    const int64_t rows = call->params[0], n = call->params[1];
    const double *x = (const double *)in[0];
    double *y = (double *)out;
    int64_t i, j, k;
    for (i = 0; i < rows; i++, x += n, y += n)
        for (j = 0; j < n; j++) {
            const double a = x[j];
            for (k = j; k > 0 && WG_BEFORE(a, y[k - 1]); k--) y[k] = y[k - 1];
            y[k] = a;
        }
    return 0;
}

static WG_KERNEL(wg_median) {
    const int64_t rows = call->params[0], n = call->params[1];
    const double *x = (const double *)in[0];
    int64_t *order = (int64_t *)spare, i;
    for (i = 0; i < rows; i++, x += n) {
        wg_order(x, n, order);
        if (x[order[n - 1]] != x[order[n - 1]]) return 1;
        ((double *)out)[i] = n % 2 ? x[order[n / 2]] : (x[order[n / 2 - 1]] + x[order[n / 2]]) / 2.0;
    }
    return 0;
}

/* Linear interpolation between sorted elements, as ``numpy.quantile`` does it. Parameters: rows, length, number of
 * quantiles, their scale. */
static WG_KERNEL(wg_quantile) {
    const int64_t rows = call->params[0], n = call->params[1], count = call->params[2];
    const double *x = (const double *)in[0], *q = (const double *)in[1], scale = (double)call->params[3];
    int64_t *order = (int64_t *)spare, i, k;
    for (i = 0; i < rows; i++, x += n) {
        wg_order(x, n, order);
        if (x[order[n - 1]] != x[order[n - 1]]) return 1;
        for (k = 0; k < count; k++) {
            const double at = q[k] / scale * (double)(n - 1), low = floor(at), t = at - low;
            double a, b, y;
            if (!(at >= 0.0 && at <= (double)(n - 1))) return 1;
            a = x[order[(int64_t)low]];
            b = x[order[(int64_t)low < n - 1 ? (int64_t)low + 1 : n - 1]];
            y = t >= 0.5 ? b - (b - a) * (1.0 - t) : a + (b - a) * t;
            if (y != y) return 1;
            ((double *)out)[k * rows + i] = y;
        }
    }
    return 0;
}

/* Third parameter: 1 for argmin. The first NaN counts as the extremum. */
static WG_KERNEL(wg_argmax) {
    const int64_t rows = call->params[0], n = call->params[1], is_min = call->params[2];
    const double *x = (const double *)in[0];
    int64_t i, j;
    for (i = 0; i < rows; i++, x += n) {
        int64_t best = 0;
        for (j = 1; j < n && x[best] == x[best]; j++)
            if (x[j] != x[j] || (is_min ? x[j] < x[best] : x[j] > x[best])) best = j;
        ((int64_t *)out)[i] = best;
    }
    return 0;
}

/* np.searchsorted. Parameters: size of the sorted array, number of values, whether side="right". */
static WG_KERNEL(wg_search) {
    const int64_t n = call->params[0], count = call->params[1], is_right = call->params[2];
    const double *a = (const double *)in[0], *x = (const double *)in[1];
    int64_t i, k;
    for (i = 0; i < count; i++) {
        if (x[i] != x[i]) return 1;
        for (k = 0; k < n && (is_right ? !(x[i] < a[k]) : a[k] < x[i]); k++) {}
        ((int64_t *)out)[i] = k;
    }
    for (k = 1; k < n; k++)
        if (!(a[k - 1] <= a[k])) return 1;
    return 0;
}

/* Linear interpolation as ``numpy.interp`` does it. Parameters: number of points, size of the table. */
static WG_KERNEL(wg_interp) {
    const int64_t count = call->params[0], n = call->params[1];
    const double *x = (const double *)in[0], *at = (const double *)in[1], *f = (const double *)in[2];
    double *y = (double *)out;
    int64_t i, k;
    for (k = 1; k < n; k++)
        if (!(at[k - 1] < at[k])) return 1;
    for (i = 0; i < count; i++) {
        if (x[i] != x[i]) return 1;
        for (k = -1; k + 1 < n && at[k + 1] <= x[i]; k++) {}
        if (k < 0 || k == n - 1)
            y[i] = f[k < 0 ? 0 : k];
        else if (at[k] == x[i])
            y[i] = f[k];
        else {
            y[i] = (f[k + 1] - f[k]) / (at[k + 1] - at[k]) * (x[i] - at[k]) + f[k];
            if (y[i] != y[i]) return 1;
        }
    }
    return 0;
}

/* ---- elementwise functions that are not ufuncs. Parameters: count, function, then parameters of the function. */

enum { WG_E_SINC, WG_E_ROUND, WG_E_POSITIVE_INFINITE, WG_E_NEGATIVE_INFINITE };

static WG_KERNEL(wg_elementwise) {
    const int64_t n = call->params[0];
    const double *x = (const double *)in[0];
    double *y = (double *)out, power;
    int64_t j;
    switch (call->params[1]) {
    case WG_E_SINC:
        for (j = 0; j < n; j++) {
            const double a = 3.14159265358979323846 * x[j];
            y[j] = a == 0.0 ? 1.0 : sin(a) / a;
        }
        break;
    case WG_E_ROUND:
        memcpy(&power, &call->params[2], sizeof power);
        for (j = 0; j < n; j++) y[j] = rint(x[j] * power) / power;
        break;
    case WG_E_POSITIVE_INFINITE:
        for (j = 0; j < n; j++) out[j] = x[j] == INFINITY;
        break;
    default:
        for (j = 0; j < n; j++) out[j] = x[j] == -INFINITY;
    }
    return 0;
}

/* np.allclose. Parameters: count, relative and absolute tolerance, whether NaN equals NaN. */
static WG_KERNEL(wg_all_close) {
    const double *a = (const double *)in[0], *b = (const double *)in[1];
    double tolerance[2];
    int64_t j;
    memcpy(tolerance, call->params + 1, sizeof tolerance);
    *out = 1;
    for (j = 0; j < call->params[0]; j++) {
        const int is_nan = a[j] != a[j] && b[j] != b[j];
        const int is_close = fabs(b[j]) < INFINITY && fabs(a[j] - b[j]) <= tolerance[1] + tolerance[0] * fabs(b[j]);
        if (!(is_close || a[j] == b[j] || (is_nan && call->params[3]))) *out = 0;
    }
    return 0;
}

/* Differences of rows in place, `order` times. Parameters: rows, length, order. */
static WG_KERNEL(wg_difference) {
    const int64_t rows = call->params[0], n = call->params[1], order = call->params[2];
    const double *x = (const double *)in[0];
    double *y = (double *)out, *line = (double *)spare;
    int64_t i, j, k;
    for (i = 0; i < rows; i++, x += n, y += n - order) {
        memcpy(line, x, (size_t)n * sizeof(double));
        for (k = 1; k <= order; k++)
            for (j = 0; j < n - k; j++) line[j] = line[j + 1] - line[j];
        memcpy(y, line, (size_t)(n - order) * sizeof(double));
    }
    return 0;
}

/* ---- moves of elements */

static void wg_copy_item(char *to, const char *from, int64_t item) {
    if (item == 8)
        memcpy(to, from, 8);
    else
        memcpy(to, from, (size_t)item);
}

/* Rows of n elements of `item` bytes, taken at `count` indices each. */
static WG_KERNEL(wg_take) {
    const int64_t *p = call->params, rows = p[0], n = p[1], count = p[2], item = p[3];
    const int64_t *at = (const int64_t *)in[1];
    const char *x = in[0];
    int64_t i, j;
    for (i = 0; i < rows; i++, x += n * item)
        for (j = 0; j < count; j++, at++, out += item) {
            const int64_t k = *at < 0 ? *at + n : *at;
            if (k < 0 || k >= n) return 1;
            wg_copy_item(out, x + k * item, item);
        }
    return 0;
}

/* Elements of several operands in a fixed order. Parameters: item size, count, and pairs (operand, index). */
static WG_KERNEL(wg_rearrange) {
    const int64_t *p = call->params, item = p[0], count = p[1];
    int64_t j;
    for (j = 0, p += 2; j < count; j++, p += 2, out += item) wg_copy_item(out, in[p[0]] + p[1] * item, item);
    return 0;
}

/* A whole operand. Parameter: bytes. */
static WG_KERNEL(wg_copy) {
    memmove(out, in[0], (size_t)call->params[0]);
    return 0;
}

static WG_KERNEL(wg_bincount) {
    const int64_t count = call->params[0], n = call->params[1], *at = (const int64_t *)in[0];
    const double *z = (const double *)in[1];
    double *y = (double *)out;
    int64_t j;
    memset(out, 0, (size_t)n * sizeof(double));
    for (j = 0; j < count; j++) {
        if (at[j] < 0 || at[j] >= n) return 1;
        y[at[j]] += z[j];
    }
    return 0;
}

static WG_KERNEL(wg_select) {
    const int64_t n = call->params[0], item = call->params[1];
    int64_t j;
    for (j = 0; j < n; j++) wg_copy_item(out + j * item, in[in[0][j] ? 1 : 2] + j * item, item);
    return 0;
}

/* Compare the operand with a constant, bit for bit; declines if they differ. */
static WG_KERNEL(wg_equals) {
    return memcmp(in[0], in[1], (size_t)call->params[0]) != 0;
}

/* ---- products */

/* Products with strong zero; second parameter: whether they are complex. Complex NaN and infinities are left to NumPy. */
static WG_KERNEL(wg_strong) {
    const int64_t n = call->params[0];
    const double *g = (const double *)in[0], *p = (const double *)in[1];
    const wg_complex *a = (const wg_complex *)in[0], *b = (const wg_complex *)in[1];
    wg_complex *y = (wg_complex *)out;
    double check = 0.0;
    int64_t j;
    if (!call->params[1]) {
        for (j = 0; j < n; j++) ((double *)out)[j] = g[j] == 0.0 || p[j] == 0.0 ? 0.0 : g[j] * p[j];
        return 0;
    }
    for (j = 0; j < n; j++) {
        y[j].re = a[j].re * b[j].re - a[j].im * b[j].im;
        y[j].im = a[j].re * b[j].im + a[j].im * b[j].re;
        check += (y[j].re - y[j].re) + (y[j].im - y[j].im);
    }
    return check != 0.0;
}

/* y[i] = sum over j of v[j] a[i + shift +- j]. Parameters: lengths of a, v and y, the shift and the direction. */
static WG_KERNEL(wg_convolve) {
    const int64_t *p = call->params, m = p[0], n = p[1], count = p[2], shift = p[3], way = p[4];
    const double *a = (const double *)in[0], *v = (const double *)in[1];
    double *y = (double *)out;
    int64_t i, j;
    memset(out, 0, (size_t)count * sizeof(double));
    for (j = 0; j < n; j++) {
        const int64_t start = shift + way * j, low = start < 0 ? -start : 0, high = m - start < count ? m - start : count;
        for (i = low; i < high; i++) y[i] += v[j] * a[i + start];
    }
    return 0;
}

/* Add n products of `count` factors each to `y`, in order; `by` holds the strides of y and of each factor. */
static void wg_add_products(double *restrict y, const double *const *from, const int64_t *by, int count, int64_t n) {
    const double *const a = from[0], *const b = from[count - 1];
    const int64_t step = by[0], s = by[1], t = by[count];
    int64_t i;
    int k;
    if (count == 2 && step == 0) {
        double total = *y;
        for (i = 0; i < n; i++) total += a[i * s] * b[i * t];
        *y = total;
    } else if (count == 2 && step == 1 && s == 0 && t == 1) {
        const double factor = *a;
        for (i = 0; i < n; i++) y[i] += factor * b[i];
    } else if (count == 2) {
        for (i = 0; i < n; i++) y[i * step] += a[i * s] * b[i * t];
    } else {
        for (i = 0; i < n; i++) {
            double term = a[i * s];
            for (k = 1; k < count; k++) term *= from[k][i * by[k + 1]];
            y[i * step] += term;
        }
    }
}

/* The same for complex factors; `sign` is -1 to conjugate the first one. */
static void wg_add_complex_products(wg_complex *y, const wg_complex *const *from, const int64_t *by, int count, int64_t n,
                                    double sign) {
    wg_complex total = *y;
    int64_t i;
    int k;
    for (i = 0; i < n; i++) {
        wg_complex term = from[0][i * by[1]];
        term.im *= sign;
        for (k = 1; k < count; k++) {
            const wg_complex b = from[k][i * by[k + 1]];
            const double re = term.re * b.re - term.im * b.im;
            term.im = term.re * b.im + term.im * b.re;
            term.re = re;
        }
        if (by[0]) total = y[i * by[0]];
        total.re += term.re;
        total.im += term.im;
        y[i * by[0]] = total;
    }
}

static int wg_are_finite(const double *x, int64_t n) {
    double check = 0.0;
    int64_t i;
    for (i = 0; i < n; i++) check += x[i] - x[i];
    return check == 0.0;
}

/* Sum of products over labels. Parameters: number of labels, size of the result, whether it is real (0), complex (1),
 * or complex with the first factor conjugated (2); then lengths, and strides of the result and of each factor. Complex
 * NaN and infinities are left to NumPy. */
static WG_KERNEL(wg_contract) {
    const int labels = (int)call->params[0], last = labels - 1, kind = (int)call->params[2], item = kind ? 2 : 1;
    const int64_t *size = call->params + 3, *steps = size + labels;
    const double *from[WG_MAX_OPERANDS] = {0};
    int64_t by[WG_MAX_OPERANDS + 1] = {0};
    ptrdiff_t at[WG_MAX_OPERANDS + 1] = {0}, index[WG_MAX_AXES] = {0};
    int d, k;
    memset(out, 0, (size_t)(call->params[1] * item) * sizeof(double));
    for (d = 0; d < labels; d++)
        if (size[d] == 0) return 0;
    for (k = 0; labels && k <= call->count; k++) by[k] = steps[k * labels + last];
    for (;;) {
        for (k = 0; k < call->count; k++) from[k] = (const double *)in[k] + item * at[k + 1];
        if (kind)
            wg_add_complex_products((wg_complex *)out + at[0], (const wg_complex *const *)from, by, call->count,
                                    labels ? size[last] : 1, kind == 2 ? -1.0 : 1.0);
        else
            wg_add_products((double *)out + at[0], from, by, call->count, labels ? size[last] : 1);
        for (d = last - 1; d >= 0; d--) {
            const int more = ++index[d] < size[d];
            for (k = 0; k <= call->count; k++) at[k] += (more ? 1 : 1 - size[d]) * steps[k * labels + d];
            if (more) break;
            index[d] = 0;
        }
        if (d < 0) return kind && !wg_are_finite((const double *)out, 2 * call->params[1]);
    }
}

const wg_named_kernel wg_named_kernels[] = {
    {"loop", wg_loop_of_ufunc}, {"eigen", wg_eigen}, {"qr by loops", wg_qr_by_loops}, {"lstsq", wg_lstsq}, {"pinv", wg_pinv}, {"truncate", wg_truncate}, {"count", wg_count}, {"fold", wg_fold}, {"complex fold", wg_complex_fold}, {"accumulate", wg_accumulate},
    {"argsort", wg_argsort}, {"quantile", wg_quantile}, {"interp", wg_interp}, {"elementwise", wg_elementwise},
    {"all close", wg_all_close}, {"difference", wg_difference}, {"sort", wg_sort}, {"median", wg_median}, {"argmax", wg_argmax}, {"search", wg_search},
    {"take", wg_take}, {"rearrange", wg_rearrange}, {"copy", wg_copy}, {"bincount", wg_bincount}, {"select", wg_select},
    {"equals", wg_equals}, {"strong", wg_strong}, {"convolve", wg_convolve}, {"contract", wg_contract},
    {"solve", wg_solve}, {"inverse", wg_inverse}, {"determinant", wg_determinant}, {"cholesky", wg_cholesky},
    {"cholesky adjoint", wg_cholesky_adjoint}, {"qr", wg_qr}, {0, 0}};
