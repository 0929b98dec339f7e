/* The tangents of one scalar operation: k directions, by the partials of kernels.h. */
#ifndef WENGERT_DUAL_H
#define WENGERT_DUAL_H

#include <stddef.h>

#include "kernels.h"

/* p times a tangent, with strong zero */
static inline double wg_times(double p, double t) { return p == 0.0 || t == 0.0 ? 0.0 : p * t; }

static inline void wg_scaled(double p, const double *restrict ta, double *restrict t, ptrdiff_t k) {
    ptrdiff_t j;
    if (isfinite(p))
        for (j = 0; j < k; j++) t[j] = p * ta[j] + 0.0; /* no -0.0 */
    else
        for (j = 0; j < k; j++) t[j] = wg_times(p, ta[j]);
    if (p == 0.0) /* also of infinite tangents */
        for (j = 0; j < k; j++) t[j] = 0.0;
}

static inline void wg_combined(double p, double q, const double *restrict ta, const double *restrict tb,
                               double *restrict t, ptrdiff_t k) {
    ptrdiff_t j;
    if (isfinite(p) && isfinite(q) && p != 0.0 && q != 0.0)
        for (j = 0; j < k; j++) t[j] = p * ta[j] + q * tb[j];
    else
        for (j = 0; j < k; j++) t[j] = wg_times(p, ta[j]) + wg_times(q, tb[j]);
}

static inline void wg_dual_k(int op, double a, double b, double y, const double *ta, const double *tb, double *t,
                             const ptrdiff_t k) {
    (void)a, (void)b, (void)y, (void)tb;
    switch (op) {
#define R(NAME, name, cost, ua, pa, ...) \
    case WG_##NAME: wg_scaled((pa), ta, t, k); break;
        WG_UNARY(R)
#undef R
#define R(NAME, name, cost, ua, ub, pa, pb, ...)                       \
    case WG_##NAME: wg_combined((pa), (pb), ta, tb, t, k); break;      \
    case WG_##NAME##_VC: wg_scaled((pa), ta, t, k); break;             \
    case WG_##NAME##_CV: wg_scaled((pb), tb, t, k); break;
        WG_BINARY(R)
#undef R
    default: break;
    }
}

/* Tangents `t` of y = phi(a, b) from those of the operands: one direction, or several. */
static void wg_dual(int op, double a, double b, double y, const double *ta, const double *tb, double *t, ptrdiff_t k) {
    if (k == 1)
        wg_dual_k(op, a, b, y, ta, tb, t, 1);
    else
        wg_dual_k(op, a, b, y, ta, tb, t, k);
}

#endif
