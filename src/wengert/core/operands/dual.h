/* The tangents of one scalar operation: k directions, by the partials of kernels.h. */
#ifndef WENGERT_DUAL_H
#define WENGERT_DUAL_H

#include "list.h"

/* Tangents `t` of y = phi(a, b) from those of the operands: one direction, or several. */
void wg_dual(int op, double a, double b, double y, const double *ta, const double *tb, double *t, ptrdiff_t k);
/* The same over n elements of two arrays that both have tangents, in one pass. */
void wg_push_vv(int op, ptrdiff_t n, const double *ta, const double *tb, const double *av, const double *bv,
                const double *yv, double *t);
/* Sum of n elements. */
double wg_sum(ptrdiff_t n, const double *x);

#endif
