/* The loops of the reverse sweep: see sweep.h. */

#include "sweep.h"

/* See wg_sweep in sweep.h; inlined with a constant k = 1 and with k at run time. */
WG_INLINE ptrdiff_t wg_sweep_k(const wg_list *t, ptrdiff_t i, ptrdiff_t stop, double *adjoint, wg_range *ranges,
                               const ptrdiff_t k, const ptrdiff_t width) {
    wg_range range = {0, 1};
    while (--i >= stop) {
        const uint8_t op = t->op[i];
        const int32_t ia = t->a[i], ib = t->b[i];
        double *g = adjoint + i * width;
        const double y = t->v[i];
        double a, b, p;
        ptrdiff_t j;
        if (op == WG_NODE) return i;
        if (op == WG_STORE) {
            double *shadow = (double *)t->shadow[t->a[i + 1]] + ib;
            const ptrdiff_t step = t->span[t->a[i + 1]] / (ptrdiff_t)sizeof(double);
            if (k == 1 && ia >= 0) adjoint[ia] += *shadow;
            for (j = 0; j < k; j++) {
                if (k != 1) g[j] = shadow[j * step]; /* a store has no slot: its row is scratch */
                shadow[j * step] = 0.0;
            }
            if (k != 1 && ia >= 0) {
                for (; j < width; j++) g[j] = 0.0;
                range = wg_in_groups(wg_trimmed(g, k));
                wg_add_row(adjoint + ia * width, ranges + ia, g, range, 1.0, k, WG_GROUP);
            }
            wg_swap(t, i);
            continue;
        }
        if (k != 1) range = ranges[i];
        if (k == 1 ? g[0] == 0.0 : range.low >= range.high) continue;
        ptrdiff_t slots[2];
        double partials[2];
        int pushed = 0;
        switch (op) {
        case WG_LOAD: {
            double *shadow = (double *)t->shadow[ia] + ib;
            const ptrdiff_t step = t->span[ia] / (ptrdiff_t)sizeof(double);
            for (j = range.low; j < range.high && j < k; j++) shadow[j * step] += g[j];
            break;
        }
/* With k > 1, rows are added after the switch, so that this long code is generated only once. A constant partial needs
 * little code and is handled here. */
#define WG_PUSH(slot, partial, reads)                                                               \
    p = (partial);                                                                                  \
    if (k != 1 && (reads) == 0)                                                                     \
        wg_add_row(adjoint + (ptrdiff_t)(slot) * width, ranges + (slot), g, range, p, k, WG_GROUP); \
    else if (k != 1)                                                                                \
        slots[pushed] = (slot), partials[pushed] = p, pushed++;                                     \
    else if (p != 0.0) /* g was tested above */                                                     \
        adjoint[slot] += *g * p;
#define R(NAME, name, cost, value, ua, pa, ...) \
    case WG_##NAME:                      \
        a = t->v[ia], (void)a;           \
        WG_PUSH(ia, pa, ua) break;
            WG_UNARY(R)
#undef R
#define R(NAME, name, cost, value, ua, ub, pa, pb, ...)                \
    case WG_##NAME:                                             \
        a = t->v[ia], b = t->v[ib], (void)a, (void)b;           \
        WG_PUSH(ia, pa, ua) WG_PUSH(ib, pb, ub) break;          \
    case WG_##NAME##_VC:                                        \
        a = t->v[ia], b = t->constants[ib], (void)a, (void)b;   \
        WG_PUSH(ia, pa, ua) break;                              \
    case WG_##NAME##_CV:                                        \
        a = t->constants[ia], b = t->v[ib], (void)a, (void)b;   \
        WG_PUSH(ib, pb, ub) break;
            WG_BINARY(R)
#undef R
#undef WG_PUSH
        default: break; /* INPUT, TARGET: no operands */
        }
        for (j = 0; k != 1 && j < pushed; j++)
            wg_add_row(adjoint + slots[j] * width, ranges + slots[j], g, range, partials[j], k, WG_GROUP);
    }
    return stop - 1;
}

/* With k = 1 there are no ranges; otherwise a row is a whole number of groups wide. */
WG_CLONES ptrdiff_t wg_sweep(const wg_list *t, ptrdiff_t i, ptrdiff_t stop, double *adjoint, wg_range *ranges,
                             ptrdiff_t k, ptrdiff_t width) {
    return k == 1 ? wg_sweep_k(t, i, stop, adjoint, ranges, 1, 1) : wg_sweep_k(t, i, stop, adjoint, ranges, k, width);
}

/* See sweep.h. */
ptrdiff_t wg_roll_forward(const wg_list *t, ptrdiff_t i, ptrdiff_t n) {
    for (; i < n; i++) {
        if (t->op[i] == WG_NODE) break;
        if (t->op[i] == WG_STORE) wg_swap(t, i);
    }
    return i;
}

/* adjoint[i] (+)= g[i] * dy/d(operand `side`) over n elements; sa, sb: strides of the operands, 0 for a scalar.
 * `fresh`: adjoint is uninitialised and written instead of added to; it may then be g itself. */
#define WG_LOOP(partial)                                             \
    WG_IVDEP for (i = 0; i < n; i++) {                                        \
        const double a = av[i * sa], b = bv[i * sb], y = yv[i];      \
        const double p = (partial), q = g[i];                        \
        const double t = ((p == 0.0) | (q == 0.0)) ? 0.0 : p * q;     \
        (void)a, (void)b, (void)y;                                   \
        adjoint[i] = fresh ? t : adjoint[i] + t;                     \
    }

#define WG_PULL(rows, sa_, sb_)                  \
    {                                            \
        const ptrdiff_t sa = (sa_), sb = (sb_);  \
        if (add) {                               \
            const int fresh = 0;                 \
            switch (op) { rows default : break; } \
        } else {                                 \
            const int fresh = 1;                 \
            switch (op) { rows default : break; } \
        }                                        \
    }
#define WG_PULL_UNARY(NAME, name, cost, value, ua, pa, ...) \
    case WG_##NAME: WG_LOOP(pa) break;
#define WG_PULL_BINARY(NAME, name, cost, value, ua, ub, pa, pb, ...) \
    case WG_##NAME:                              \
        if (side == 0) {                         \
            WG_LOOP(pa)                          \
        } else {                                 \
            WG_LOOP(pb)                          \
        }                                        \
        break;
#define WG_ALL_ROWS WG_UNARY(WG_PULL_UNARY) WG_BINARY(WG_PULL_BINARY)
#define WG_BINARY_ROWS WG_BINARY(WG_PULL_BINARY)

WG_CLONES void wg_pull(int form, int op, int side, int add, ptrdiff_t n, const double *g, const double *av,
                       const double *bv, const double *yv, double *adjoint) {
    ptrdiff_t i;
    if (!bv) bv = av; /* unary: the loops load both operands */
    if (form == WG_VECTORS)
        WG_PULL(WG_ALL_ROWS, 1, 1)
    else if (form == WG_SCALAR_RIGHT)
        WG_PULL(WG_BINARY_ROWS, 1, 0)
    else
        WG_PULL(WG_BINARY_ROWS, 0, 1)
}

/* adjoint (+)= g * p for an array of partials */
WG_CLONES void wg_multiply_add(int add, ptrdiff_t n, const double *g, const double *pv, double *adjoint) {
    ptrdiff_t i;
    const ptrdiff_t sa = 0, sb = 0;
    const double *av = pv, *bv = pv, *yv = pv;
    if (add) {
        const int fresh = 0;
        WG_LOOP(y)
    } else {
        const int fresh = 1;
        WG_LOOP(y)
    }
}

/* Return g * p, but 0 if the product is NaN and a factor is 0. */
static inline double wg_strong_product(double g, double p) {
    const double y = g * p;
    return y != y && (g == 0.0 || p == 0.0) ? 0.0 : y;
}

WG_CLONES void wg_strong(ptrdiff_t n, const double *g, const double *p, int step, double *y) {
    ptrdiff_t i;
    if (step) {
        for (i = 0; i < n; i++) y[i] = wg_strong_product(g[i], p[i]);
    } else {
        const double scalar = *p; /* y may be g */
        for (i = 0; i < n; i++) y[i] = wg_strong_product(g[i], scalar);
    }
}

/* adjoint (+)= u v^T, for rows that are `step` elements apart; 0 times anything is 0 */
WG_CLONES void wg_rank_one(int add, ptrdiff_t m, ptrdiff_t n, const double *u, const double *v, double *adjoint,
                           ptrdiff_t step) {
    ptrdiff_t k, i;
    for (k = 0; k < m; k++) {
        double *row = adjoint + k * step;
        if (add)
            for (i = 0; i < n; i++) row[i] += wg_strong_product(u[k], v[i]);
        else
            for (i = 0; i < n; i++) row[i] = wg_strong_product(u[k], v[i]);
    }
}

/* adjoint (+)= g, one scalar for all elements: the pullback of a sum */
WG_CLONES void wg_add_scalar(int add, ptrdiff_t n, double g, double *adjoint) {
    ptrdiff_t i;
    if (add)
        for (i = 0; i < n; i++) adjoint[i] += g;
    else
        for (i = 0; i < n; i++) adjoint[i] = g;
}

/* Partials of one row at one point, for tests and the opcode table. */
void wg_partials(int op, double a, double b, double y, double *pa, double *pb) {
    (void)b, (void)y;
    switch (op) {
#define R(NAME, name, cost, value, ua, pa_, ...) \
    case WG_##NAME: *pa = (pa_); break;
        WG_UNARY(R)
#undef R
#define R(NAME, name, cost, value, ua, ub, pa_, pb_, ...) \
    case WG_##NAME: *pa = (pa_), *pb = (pb_); break;
        WG_BINARY(R)
#undef R
    default: break;
    }
}

#ifdef WG_VECTOR_MATH
enum { COSTLY = 0, CHEAP = 1, VECTOR = 1 };
#else
enum { COSTLY = 0, CHEAP = 1, VECTOR = 0 };
#endif
const wg_row wg_rows[] = {
#define R(NAME, name, cost, value, ua, pa, ...) {name, WG_##NAME, 1, cost, ua, 0, #value, #pa, ""},
    WG_UNARY(R)
#undef R
#define R(NAME, name, cost, value, ua, ub, pa, pb, ...) {name, WG_##NAME, 2, cost, ua, ub, #value, #pa, #pb},
    WG_BINARY(R)
#undef R
    {0, 0, 0, 0, 0, 0, 0, 0, 0}};
const char *const wg_helpers[] = {
#define WG_HELPER(...) #__VA_ARGS__,
#include "helpers.h"
#undef WG_HELPER
    0};
