/* Loops of forward mode, see dual.h. */

#include "dual.h"

/* Return p times a tangent, with strong zero. */
static inline double wg_times(double p, double t) { return p == 0.0 || t == 0.0 ? 0.0 : p * t; }

static inline void wg_scaled(double p, const double *restrict ta, double *restrict t, ptrdiff_t k) {
    ptrdiff_t j;
    if (isfinite(p))
        for (j = 0; j < k; j++) t[j] = p * ta[j] + 0.0; /* no -0.0 */
    else
        for (j = 0; j < k; j++) t[j] = wg_times(p, ta[j]);
    if (p == 0.0) /* strong zero, for infinite tangents too */
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
#define R(NAME, name, cost, value, ua, pa, ...) \
    case WG_##NAME: wg_scaled((pa), ta, t, k); break;
        WG_UNARY(R)
#undef R
#define R(NAME, name, cost, value, ua, ub, pa, pb, ...)                       \
    case WG_##NAME: wg_combined((pa), (pb), ta, tb, t, k); break;      \
    case WG_##NAME##_VC: wg_scaled((pa), ta, t, k); break;             \
    case WG_##NAME##_CV: wg_scaled((pb), tb, t, k); break;
        WG_BINARY(R)
#undef R
    default: break;
    }
}

/* Constant k = 1 lets the compiler specialise the loops for one direction. */
void wg_dual(int op, double a, double b, double y, const double *ta, const double *tb, double *t, ptrdiff_t k) {
    if (k == 1)
        wg_dual_k(op, a, b, y, ta, tb, t, 1);
    else
        wg_dual_k(op, a, b, y, ta, tb, t, k);
}

/* Both operands are arrays with tangents; one pass over the elements. */
#define WG_PUSH_BINARY(NAME, name, cost, value, ua, ub, pa, pb, ...)                  \
    case WG_##NAME:                                                            \
        WG_IVDEP for (i = 0; i < n; i++) {                                     \
            const double a = av[i], b = bv[i], y = yv[i], u = ta[i], v = tb[i]; \
            const double p = (pa), q = (pb);                                   \
            (void)a, (void)b, (void)y;                                         \
            t[i] = (((p == 0.0) | (u == 0.0)) ? 0.0 : p * u) + (((q == 0.0) | (v == 0.0)) ? 0.0 : q * v); \
        }                                                                      \
        break;

WG_CLONES void wg_push_vv(int op, ptrdiff_t n, const double *ta, const double *tb, const double *av, const double *bv,
                          const double *yv, double *t) {
    ptrdiff_t i;
    switch (op) { WG_BINARY(WG_PUSH_BINARY) default : break; }
}

/* Eight partial sums vectorise, and have a smaller rounding error than one. */
WG_CLONES double wg_sum(ptrdiff_t n, const double *x) {
    double part[8] = {0.0}, sum = 0.0;
    ptrdiff_t i, m;
    for (i = 0; i + 8 <= n; i += 8)
        for (m = 0; m < 8; m++) part[m] += x[i + m];
    for (; i < n; i++) sum += x[i];
    for (m = 0; m < 8; m++) sum += part[m];
    return sum;
}
