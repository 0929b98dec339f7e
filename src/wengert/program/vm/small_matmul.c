/* Products of small matrices and vectors: see small_matmul.h. */

#include "small_matmul.h"

#include "list.h"

/* Dot product of a contiguous vector and a strided one. */
WG_VM_CLONES static double wg_dot(const double *a, const double *b, ptrdiff_t step, ptrdiff_t n) {
    double s[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, rest = 0.0;
    ptrdiff_t i = 0;
    int j;
    if (step == 1)
        for (; i + 8 <= n; i += 8)
            for (j = 0; j < 8; j++) s[j] += a[i + j] * b[i + j];
    for (; i < n; i++) rest += a[i] * b[i * step];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])) + rest;
}

/* Product of a row vector and a matrix with contiguous rows, four rows at a time. */
WG_VM_CLONES static void wg_row_times(const double *restrict a, ptrdiff_t step, const double *restrict b, ptrdiff_t row,
                                      double *restrict y, ptrdiff_t k, ptrdiff_t n) {
    ptrdiff_t i = 0, j;
    for (j = 0; j < n; j++) y[j] = 0.0;
    for (; i + 4 <= k; i += 4) {
        const double a0 = a[i * step], a1 = a[(i + 1) * step], a2 = a[(i + 2) * step], a3 = a[(i + 3) * step];
        const double *const b0 = b + i * row, *const b1 = b0 + row, *const b2 = b1 + row, *const b3 = b2 + row;
        for (j = 0; j < n; j++) y[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
    }
    for (; i < k; i++) {
        const double a0 = a[i * step];
        const double *const b0 = b + i * row;
        for (j = 0; j < n; j++) y[j] += a0 * b0[j];
    }
}

/* Product of a matrix and a contiguous vector. */
static void wg_times_vector(const double *a, ptrdiff_t row, ptrdiff_t column, const double *x, double *y, ptrdiff_t m,
                            ptrdiff_t k) {
    ptrdiff_t i;
    if (row == 1 && m > 1)
        wg_row_times(x, 1, a, column, y, k, m);
    else
        for (i = 0; i < m; i++) y[i] = wg_dot(x, a + i * row, column, k);
}

void wg_multiply(const wg_product *p, double *slots, char **where, double *y) {
    const double *a = p->left < 0 ? p->constants[0] : (const double *)where[p->left];
    const double *b = p->right < 0 ? p->constants[1] : (const double *)where[p->right];
    const ptrdiff_t m = p->m, k = p->k, n = p->n;
    ptrdiff_t row = p->right_row, i, j;
    double packed[WG_MAX_PACKED];
    if (p->slot >= 0) y = slots + p->slot;
    if (n == 1 || m == 1) {
        const double *const x = n == 1 ? b : a;
        const ptrdiff_t step = n == 1 ? p->right_row : p->left_column;
        const double *line = x;
        if (step != 1 && k > 1) {
            for (i = 0; i < k; i++) packed[i] = x[i * step];
            line = packed;
        }
        if (n == 1)
            wg_times_vector(a, p->left_row, p->left_column, line, y, m, k);
        else
            wg_times_vector(b, p->right_column, p->right_row, line, y, n, k);
        return;
    }
    if (p->right_column != 1) {
        for (i = 0; i < k; i++)
            for (j = 0; j < n; j++) packed[i * n + j] = b[i * row + j * p->right_column];
        b = packed;
        row = n;
    }
    for (i = 0; i < m; i++) wg_row_times(a + i * p->left_row, p->left_column, b, row, y + i * n, k, n);
}
