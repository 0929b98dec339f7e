/* Products of small matrices and vectors, for which calls of NumPy and BLAS take longer than the arithmetic.
 *
 * Each element of the result is one sum; how it adds up follows from the shapes and strides alone.
 * Strides are in elements. */
#ifndef WENGERT_PRODUCT_H
#define WENGERT_PRODUCT_H

#include <stddef.h>
#include <stdint.h>

enum { WG_PACKED = 1024 }; /* elements of a second factor that is copied into rows without gaps */

typedef struct {
    int32_t left, right; /* arrays, or -1 for a constant, */
    const double *constants[2];
    ptrdiff_t m, k, n;
    ptrdiff_t left_row, left_column, right_row, right_column;
    int32_t slot; /* of a number that is the result, or -1 */
} wg_product;

/* The product, into y or its slot. */
void wg_multiply(const wg_product *p, double *slots, char **where, double *y);

#endif
