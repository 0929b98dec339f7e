/* Products of small matrices and vectors, for which a call of NumPy and BLAS costs more than the arithmetic.
 *
 * The order of additions in each element of the result depends only on shapes and strides.
 * Strides are in elements. */
#ifndef WENGERT_PRODUCT_H
#define WENGERT_PRODUCT_H

#include <stddef.h>
#include <stdint.h>

enum { WG_MAX_PACKED = 1024 }; /* maximum number of elements of a factor that is copied to a contiguous buffer */

typedef struct {
    int32_t left, right; /* arrays, or -1 for a constant */
    const double *constants[2];
    ptrdiff_t m, k, n;
    ptrdiff_t left_row, left_column, right_row, right_column;
    int32_t slot; /* slot of a scalar result, or -1 */
} wg_product;

/* Store the product in y, or in the slot of a scalar result. */
void wg_multiply(const wg_product *p, double *slots, char **where, double *y);

#endif
