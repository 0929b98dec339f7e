/* Native calls of dense linear algebra on small matrices in C order.
 *
 * The algorithms are LAPACK's unblocked ones (Golub and Van Loan 2013, Matrix computations, sections 3.4, 4.2, 5.2), so
 * results agree with NumPy's within rounding, including signs. A kernel declines matrices that are singular or not
 * positive definite up to rounding, and matrices with non-finite elements: NumPy then handles them.
 */
#include "native.h"

#include <math.h>
#include <string.h>

#define WG_SUSPECT 1e-11 /* pivots relative to the largest element, below which a kernel declines */

static double wg_largest(const double *a, int64_t count) {
    double top = 0.0;
    int64_t j;
    for (j = 0; j < count; j++) top = fabs(a[j]) <= top ? top : fabs(a[j]); /* NaN replaces the maximum so far */
    for (j = 0; j < count; j++)
        if (!(fabs(a[j]) < INFINITY)) return NAN;
    return top;
}

/* Factor a = P L U in place with partial pivoting; returns the sign of P, or 0 for a nearly singular matrix. */
static double wg_lu(double *a, int64_t n, int64_t *pivots) {
    const double least = WG_SUSPECT * wg_largest(a, n * n);
    double sign = 1.0;
    int64_t i, j, k;
    for (k = 0; k < n; k++) {
        int64_t p = k;
        for (i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[p * n + k])) p = i;
        if (!(fabs(a[p * n + k]) > least)) return 0.0;
        pivots[k] = p;
        if (p != k) {
            sign = -sign;
            for (j = 0; j < n; j++) {
                const double t = a[k * n + j];
                a[k * n + j] = a[p * n + j];
                a[p * n + j] = t;
            }
        }
        for (i = k + 1; i < n; i++) {
            const double f = a[i * n + k] = a[i * n + k] / a[k * n + k];
            for (j = k + 1; j < n; j++) a[i * n + j] -= f * a[k * n + j];
        }
    }
    return sign;
}

/* Solve for m right-hand sides in place, given the LU factors. */
static void wg_lu_solve(const double *a, int64_t n, const int64_t *pivots, double *x, int64_t m) {
    int64_t i, j, k;
    for (k = 0; k < n; k++)
        if (pivots[k] != k)
            for (j = 0; j < m; j++) {
                const double t = x[k * m + j];
                x[k * m + j] = x[pivots[k] * m + j];
                x[pivots[k] * m + j] = t;
            }
    for (i = 1; i < n; i++)
        for (k = 0; k < i; k++)
            for (j = 0; j < m; j++) x[i * m + j] -= a[i * n + k] * x[k * m + j];
    for (i = n - 1; i >= 0; i--) {
        for (k = i + 1; k < n; k++)
            for (j = 0; j < m; j++) x[i * m + j] -= a[i * n + k] * x[k * m + j];
        for (j = 0; j < m; j++) x[i * m + j] /= a[i * n + i];
    }
}

/* Parameters: number of systems, order, columns. */
WG_KERNEL(wg_solve) {
    const int64_t count = call->params[0], n = call->params[1], m = call->params[2];
    const double *a = (const double *)in[0], *b = (const double *)in[1];
    double *x = (double *)out, *factors = (double *)spare;
    int64_t *pivots = (int64_t *)(factors + n * n), s;
    for (s = 0; s < count; s++, a += n * n, b += n * m, x += n * m) {
        memcpy(factors, a, (size_t)(n * n) * sizeof(double));
        if (wg_lu(factors, n, pivots) == 0.0) return 1;
        memcpy(x, b, (size_t)(n * m) * sizeof(double));
        wg_lu_solve(factors, n, pivots, x, m);
    }
    return 0;
}

/* Parameters: number of matrices, order. */
WG_KERNEL(wg_inverse) {
    const int64_t count = call->params[0], n = call->params[1];
    const double *a = (const double *)in[0];
    double *x = (double *)out, *factors = (double *)spare;
    int64_t *pivots = (int64_t *)(factors + n * n), s, i;
    for (s = 0; s < count; s++, a += n * n, x += n * n) {
        memcpy(factors, a, (size_t)(n * n) * sizeof(double));
        if (wg_lu(factors, n, pivots) == 0.0) return 1;
        memset(x, 0, (size_t)(n * n) * sizeof(double));
        for (i = 0; i < n; i++) x[i * n + i] = 1.0;
        wg_lu_solve(factors, n, pivots, x, n);
    }
    return 0;
}

/* Parameters: number of matrices, order, whether to return signs and then logarithms. */
WG_KERNEL(wg_determinant) {
    const int64_t count = call->params[0], n = call->params[1], has_log = call->params[2];
    const double *a = (const double *)in[0];
    double *y = (double *)out, *factors = (double *)spare;
    int64_t *pivots = (int64_t *)(factors + n * n), s, i;
    for (s = 0; s < count; s++, a += n * n) {
        double sign, log_size = 0.0;
        memcpy(factors, a, (size_t)(n * n) * sizeof(double));
        sign = wg_lu(factors, n, pivots);
        if (sign == 0.0) return 1;
        for (i = 0; i < n; i++) {
            const double u = factors[i * n + i];
            if (!has_log)
                sign *= u;
            else {
                sign = u < 0.0 ? -sign : sign;
                log_size += log(fabs(u));
            }
        }
        y[s] = sign;
        if (has_log) y[count + s] = log_size;
    }
    return 0;
}

/* Parameters: number of matrices, order, whether the factor is upper triangular. Reads one triangle. */
WG_KERNEL(wg_cholesky) {
    const int64_t count = call->params[0], n = call->params[1], row = call->params[2] ? 1 : n, column = n + 1 - row;
    const double *a = (const double *)in[0];
    double *l = (double *)out;
    int64_t s, i, j, k;
    for (s = 0; s < count; s++, a += n * n, l += n * n) {
        memset(l, 0, (size_t)(n * n) * sizeof(double));
        for (j = 0; j < n; j++)
            for (i = j; i < n; i++) {
                double x = a[i * row + j * column];
                for (k = 0; k < j; k++) x -= l[i * row + k * column] * l[j * row + k * column];
                if (i == j && !(x > WG_SUSPECT * fabs(a[i * n + i]) && x < INFINITY)) return 1;
                l[i * row + j * column] = i == j ? sqrt(x) : x / l[j * (n + 1)];
            }
        for (i = 0; i < n * n; i++)
            if (!(fabs(l[i]) < INFINITY)) return 1;
    }
    return 0;
}

/* S = L^-T P L^-1 with P the symmetric matrix whose lower triangle is that of L^T tril(G), halved: see rules/factors.py.
 * Parameters: number of directions, order, number of factors (1, or one per direction). */
WG_KERNEL(wg_cholesky_adjoint) {
    const int64_t count = call->params[0], n = call->params[1];
    const double *l = (const double *)in[0], *g = (const double *)in[1];
    double *y = (double *)out;
    int64_t s, i, j, k;
    for (s = 0; s < count; s++, l += n * n, g += n * n, y += n * n) {
        for (i = 0; i < n; i++)
            for (j = 0; j <= i; j++) {
                double x = 0.0;
                for (k = i; k < n; k++) x += l[k * n + i] * g[k * n + j];
                y[i * n + j] = y[j * n + i] = 0.5 * x;
            }
        for (j = 0; j < n; j++) /* y = L^-T y */
            for (i = n - 1; i >= 0; i--) {
                double x = y[i * n + j];
                for (k = i + 1; k < n; k++) x -= l[k * n + i] * y[k * n + j];
                y[i * n + j] = x / l[i * (n + 1)];
            }
        for (i = 0; i < n; i++) /* y = y L^-1 */
            for (j = n - 1; j >= 0; j--) {
                double x = y[i * n + j];
                for (k = j + 1; k < n; k++) x -= y[i * n + k] * l[k * n + j];
                y[i * n + j] = x / l[j * (n + 1)];
            }
        for (i = 0; i < n; i++)
            for (j = 0; j < i; j++) y[i * n + j] = y[j * n + i] = 0.5 * (y[i * n + j] + y[j * n + i]);
        for (i = 0; i < n * n; i++)
            if (!(fabs(y[i]) < INFINITY)) return 1;
    }
    return 0;
}

/* Householder QR as LAPACK's dgeqr2 and dorg2r; Q (m, width) and then R (width, n). Parameters: m, n, width. */
WG_KERNEL(wg_qr) {
    const int64_t m = call->params[0], n = call->params[1], width = call->params[2], k = m < n ? m : n;
    double *a = (double *)spare, *tau = a + m * n, *q = (double *)out, *r = q + m * width;
    int64_t i, j, c;
    memcpy(a, in[0], (size_t)(m * n) * sizeof(double));
    if (!(wg_largest(a, m * n) > 0.0)) return 1;
    for (c = 0; c < k; c++) {
        double norm = 0.0, alpha = a[c * n + c], beta;
        for (i = c + 1; i < m; i++) norm = hypot(norm, a[i * n + c]);
        tau[c] = 0.0;
        if (norm == 0.0) continue;
        beta = -copysign(hypot(alpha, norm), alpha);
        tau[c] = (beta - alpha) / beta;
        for (i = c + 1; i < m; i++) a[i * n + c] /= alpha - beta;
        a[c * n + c] = beta;
        for (j = c + 1; j < n; j++) {
            double s = a[c * n + j];
            for (i = c + 1; i < m; i++) s += a[i * n + c] * a[i * n + j];
            s *= tau[c];
            a[c * n + j] -= s;
            for (i = c + 1; i < m; i++) a[i * n + j] -= s * a[i * n + c];
        }
    }
    memset(r, 0, (size_t)(width * n) * sizeof(double));
    for (i = 0; i < k; i++)
        for (j = i; j < n; j++) r[i * n + j] = a[i * n + j];
    memset(q, 0, (size_t)(m * width) * sizeof(double));
    for (i = 0; i < width; i++) q[i * width + i] = 1.0;
    for (c = k - 1; c >= 0; c--)
        for (j = c; j < width; j++) {
            double s = q[c * width + j];
            for (i = c + 1; i < m; i++) s += a[i * n + c] * q[i * width + j];
            s *= tau[c];
            q[c * width + j] -= s;
            for (i = c + 1; i < m; i++) q[i * width + j] -= s * a[i * n + c];
        }
    return 0;
}
