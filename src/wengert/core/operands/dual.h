/* Tangents of scalar operations in k directions, from the partials in kernels.h. */
#ifndef WENGERT_DUAL_H
#define WENGERT_DUAL_H

#include "list.h"

/* Compute the k tangents `t` of y = phi(a, b) from the tangents of the operands. */
void wg_dual(int op, double a, double b, double y, const double *ta, const double *tb, double *t, ptrdiff_t k);
/* Compute one tangent of n elements y = phi(a, b) in one pass, where both arrays have tangents. */
void wg_push_vv(int op, ptrdiff_t n, const double *ta, const double *tb, const double *av, const double *bv,
                const double *yv, double *t);
/* Return the sum of n elements. */
double wg_sum(ptrdiff_t n, const double *x);

#endif
