/* The loops of forward over reverse: see second_sweep.h. */

#include "second_sweep.h"

#include <string.h>

/* Slots of an entry's operands (-1: a constant or none), and its partials in them. */
typedef struct {
    ptrdiff_t ia, ib;
    double pa, pb, paa, pab, pbb;
} wg_entry;

WG_INLINE wg_entry wg_read(const wg_list *t, ptrdiff_t i, const int order) {
    const ptrdiff_t ia = t->a[i], ib = t->b[i];
    const double y = t->v[i];
    double a, b;
    wg_entry e = {-1, -1, 0.0, 0.0, 0.0, 0.0, 0.0};
    (void)y;
    switch (t->op[i]) {
#define R(NAME, name, cost, value, ua, pa_, paa_)     \
    case WG_##NAME:                            \
        a = t->v[ia], (void)a;                 \
        e.ia = ia, e.pa = (pa_);               \
        if (order == 2) e.paa = (paa_);        \
        break;
        WG_UNARY(R)
#undef R
#define R(NAME, name, cost, value, ua, ub, pa_, pb_, paa_, pab_, pbb_)        \
    case WG_##NAME:                                                    \
        a = t->v[ia], b = t->v[ib], (void)a, (void)b;                  \
        e.ia = ia, e.pa = (pa_), e.ib = ib, e.pb = (pb_);              \
        if (order == 2) e.paa = (paa_), e.pab = (pab_), e.pbb = (pbb_); \
        break;                                                         \
    case WG_##NAME##_VC:                                               \
        a = t->v[ia], b = t->constants[ib], (void)a, (void)b;          \
        e.ia = ia, e.pa = (pa_);                                       \
        if (order == 2) e.paa = (paa_);                                \
        break;                                                         \
    case WG_##NAME##_CV:                                               \
        a = t->constants[ia], b = t->v[ib], (void)a, (void)b;          \
        e.ib = ib, e.pb = (pb_);                                       \
        if (order == 2) e.pbb = (pbb_);                                \
        break;
        WG_BINARY(R)
#undef R
    default: break; /* INPUT, TARGET: no operands */
    }
    return e;
}

/* See wg_tangents in second_sweep.h; inlined with a constant k = 1 and with k at run time. */
WG_INLINE ptrdiff_t wg_tangents_k(const wg_list *t, const wg_second *s, ptrdiff_t i, ptrdiff_t n,
                                  const ptrdiff_t k) {
    for (; i < n; i++) {
        const uint8_t op = t->op[i];
        double *row = s->tangent + i * k;
        ptrdiff_t j;
        if (op == WG_NODE) return i;
        if (op == WG_LOAD) {
            const double *memory = (const double *)s->tangent_memory[t->a[i]] + t->b[i];
            const ptrdiff_t step = t->span[t->a[i]] / (ptrdiff_t)sizeof(double), unit = s->unit[t->a[i]];
            if (k > 1 && unit != WG_NOT_UNIT) {
                j = t->b[i] - unit;
                if (j >= 0 && j < k) row[j] = 1.0, s->tangents[i] = (wg_range){(int32_t)j, (int32_t)j + 1};
            } else {
                for (j = 0; j < k; j++) row[j] = memory[j * step];
                s->tangents[i] = wg_trimmed(row, k);
            }
        } else if (op == WG_STORE) { /* a store has no slot: its row saves the overwritten tangents */
            double *memory = (double *)s->tangent_memory[t->a[i + 1]] + t->b[i];
            const ptrdiff_t step = t->span[t->a[i + 1]] / (ptrdiff_t)sizeof(double), ia = t->a[i];
            const wg_range known = ia < 0 ? (wg_range){0, 0} : k == 1 ? (wg_range){0, 1} : s->tangents[ia];
            for (j = 0; j < k; j++) {
                row[j] = memory[j * step];
                memory[j * step] = 0.0;
            }
            for (j = known.low; j < known.high; j++) memory[j * step] = s->tangent[ia * k + j];
            s->unit[t->a[i + 1]] = WG_NOT_UNIT;
            wg_swap(t, i);
        } else {
            const wg_entry e = wg_read(t, i, 1);
            if (e.ia >= 0) wg_add_row(row, s->tangents + i, s->tangent + e.ia * k, s->tangents[e.ia], e.pa, k, 1);
            if (e.ib >= 0) wg_add_row(row, s->tangents + i, s->tangent + e.ib * k, s->tangents[e.ib], e.pb, k, 1);
        }
    }
    return n;
}

/* See wg_seconds in second_sweep.h. */
WG_INLINE ptrdiff_t wg_seconds_k(const wg_list *t, const wg_second *s, ptrdiff_t i, ptrdiff_t stop,
                                 const ptrdiff_t k) {
    while (--i >= stop) {
        const uint8_t op = t->op[i];
        double *row = s->second + i * k;
        const wg_range range = s->seconds[i];
        ptrdiff_t j;
        double g;
        if (op == WG_NODE) return i;
        if (op == WG_STORE) {
            const ptrdiff_t target = t->a[i + 1], ia = t->a[i], ib = t->b[i];
            const ptrdiff_t step = t->span[target] / (ptrdiff_t)sizeof(double);
            double *shadow = (double *)t->shadow[target] + ib, *memory = (double *)s->second_memory[target] + ib;
            double *tangent = (double *)s->tangent_memory[target] + ib;
            const double *saved = s->tangent + i * k;
            for (j = 0; j < k; j++) {
                row[j] = memory[j * step];
                memory[j * step] = 0.0;
                tangent[j * step] = saved[j];
            }
            if (ia >= 0) {
                s->adjoint[ia] += *shadow;
                wg_add_row(s->second + ia * k, s->seconds + ia, row, wg_trimmed(row, k), 1.0, k, 1);
            }
            *shadow = 0.0;
            wg_swap(t, i);
            continue;
        }
        g = s->adjoint[i];
        if (g == 0.0 && (k == 1 ? row[0] == 0.0 : range.low >= range.high)) continue;
        if (op == WG_LOAD) {
            const ptrdiff_t ia = t->a[i], ib = t->b[i], step = t->span[ia] / (ptrdiff_t)sizeof(double);
            double *memory = (double *)s->second_memory[ia] + ib;
            ((double *)t->shadow[ia])[ib] += g;
            if (k == 1)
                memory[0] += row[0];
            else
                for (j = range.low; j < range.high; j++) memory[j * step] += row[j];
        } else {
            const wg_entry e = wg_read(t, i, 2);
            /* if the adjoint is 0 there is no curvature term, whatever the second partial is (strong zero) */
#define WG_BACK(slot, p, p_own, other, p_mixed)                                                                   \
    if (slot >= 0) {                                                                                              \
        double *to = s->second + slot * k;                                                                        \
        wg_range *of = s->seconds + slot;                                                                         \
        wg_add_row(to, of, row, range, p, k, 1);                                                                   \
        if (g != 0.0) {                                                                                           \
            if (p != 0.0) s->adjoint[slot] += g * p;                                                              \
            if (p_own != 0.0) wg_add_row(to, of, s->tangent + slot * k, s->tangents[slot], g * p_own, k, 1);         \
            if (p_mixed != 0.0) wg_add_row(to, of, s->tangent + other * k, s->tangents[other], g * p_mixed, k, 1);   \
        }                                                                                                         \
    }
            WG_BACK(e.ia, e.pa, e.paa, e.ib, e.pab)
            WG_BACK(e.ib, e.pb, e.pbb, e.ia, e.pab)
#undef WG_BACK
        }
    }
    return stop - 1;
}

WG_CLONES ptrdiff_t wg_tangents(const wg_list *t, const wg_second *s, ptrdiff_t i, ptrdiff_t n, ptrdiff_t k) {
    return k == 1 ? wg_tangents_k(t, s, i, n, 1) : wg_tangents_k(t, s, i, n, k);
}

WG_CLONES ptrdiff_t wg_seconds(const wg_list *t, const wg_second *s, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t k) {
    return k == 1 ? wg_seconds_k(t, s, i, stop, 1) : wg_seconds_k(t, s, i, stop, k);
}

/* See second_sweep.h. */
ptrdiff_t wg_roll_back(const wg_list *t, ptrdiff_t i) {
    while (--i >= 0) {
        if (t->op[i] == WG_NODE) break;
        if (t->op[i] == WG_STORE) wg_swap(t, i);
    }
    return i;
}

/* ---- array entries: one column of a row over n elements, and sums of products in k directions */

#define WG_COLUMN(partial)                                           \
    WG_IVDEP for (i = 0; i < n; i++) {                                        \
        const double a = av[i * sa], b = bv[i * sb], y = yv[i];      \
        (void)a, (void)b, (void)y;                                   \
        out[i] = (partial);                                          \
    }                                                                \
    break;
#define WG_COLUMN_UNARY(NAME, name, cost, value, ua, pa, paa) \
    case WG_##NAME:                                    \
        if (column == WG_PA) {                         \
            WG_COLUMN(pa)                              \
        } else {                                       \
            WG_COLUMN(paa)                             \
        }                                              \
        break;
#define WG_COLUMN_BINARY(NAME, name, cost, value, ua, ub, pa, pb, paa, pab, pbb) \
    case WG_##NAME:                                                       \
        switch (column) {                                                 \
        case WG_PA: WG_COLUMN(pa)                                         \
        case WG_PB: WG_COLUMN(pb)                                         \
        case WG_PAA: WG_COLUMN(paa)                                       \
        case WG_PAB: WG_COLUMN(pab)                                       \
        default: WG_COLUMN(pbb)                                           \
        }                                                                 \
        break;

#define WG_COLUMNS(rows, sa_, sb_)              \
    {                                           \
        const ptrdiff_t sa = (sa_), sb = (sb_); \
        switch (op) { rows default : break; }   \
    }
#define WG_ALL_ROWS WG_UNARY(WG_COLUMN_UNARY) WG_BINARY(WG_COLUMN_BINARY)
#define WG_BINARY_ROWS WG_BINARY(WG_COLUMN_BINARY)

WG_CLONES void wg_column(int form, int op, int column, ptrdiff_t n, const double *av, const double *bv,
                         const double *yv, double *out) {
    ptrdiff_t i;
    if (form == WG_VECTORS)
        WG_COLUMNS(WG_ALL_ROWS, 1, 1)
    else if (form == WG_SCALAR_RIGHT)
        WG_COLUMNS(WG_BINARY_ROWS, 1, 0)
    else
        WG_COLUMNS(WG_BINARY_ROWS, 0, 1)
}

/* Is a column of a row 0 everywhere? kernels.h then has the literal 0.0. */
int wg_is_zero(int op, int column) {
    switch (op) {
#define R(NAME, name, cost, value, ua, pa, paa) \
    case WG_##NAME: return column > WG_PAA || column == WG_PB || (column == WG_PAA && #paa[0] == '0');
        WG_UNARY(R)
#undef R
#define R(NAME, name, cost, value, ua, ub, pa, pb, paa, pab, pbb)                                              \
    case WG_##NAME:                                                                                     \
        return (column == WG_PAA && #paa[0] == '0') || (column == WG_PAB && #pab[0] == '0') ||          \
               (column == WG_PBB && #pbb[0] == '0');
        WG_BINARY(R)
#undef R
    default: return 0;
    }
}

/* Do the partials of a row call library functions? They are then saved by the forward sweep. */
int wg_is_costly(int op) {
    enum { CHEAP, VECTOR, COSTLY };
    switch (op) {
#define R(NAME, name, cost, ...) \
    case WG_##NAME: return cost != CHEAP;
        WG_UNARY(R) WG_BINARY(R)
#undef R
    default: return 0;
    }
}

/* out (+)= x * p; out may be x itself */
WG_INLINE void wg_add_product(int add, ptrdiff_t n, const double *x, const double *p, double *out) {
    ptrdiff_t i;
    if (add)
        WG_IVDEP for (i = 0; i < n; i++) out[i] += ((x[i] == 0.0) | (p[i] == 0.0)) ? 0.0 : x[i] * p[i];
    else
        WG_IVDEP for (i = 0; i < n; i++) out[i] = ((x[i] == 0.0) | (p[i] == 0.0)) ? 0.0 : x[i] * p[i];
}

/* out (+)= x * c */
WG_INLINE void wg_add_multiple(int add, ptrdiff_t n, const double *x, double c, double *out) {
    ptrdiff_t i;
    if (c == 1.0 && !add) {
        if (x != out) memcpy(out, x, n * sizeof(double));
    } else if (c == 0.0 || !isfinite(c))
        for (i = 0; i < n; i++) out[i] = (add ? out[i] : 0.0) + (c == 0.0 || x[i] == 0.0 ? 0.0 : c * x[i]);
    else if (add)
        WG_IVDEP for (i = 0; i < n; i++) out[i] += c * x[i];
    else
        WG_IVDEP for (i = 0; i < n; i++) out[i] = c * x[i];
}

/* out[j] (+)= sum of the terms, for each of k directions */
WG_CLONES void wg_combine(ptrdiff_t k, ptrdiff_t n, const wg_term *terms, int count, int add, double *out,
                          ptrdiff_t out_step) {
    ptrdiff_t j;
    int m;
    for (j = 0; j < k; j++, out += out_step)
        for (m = 0; m < count; m++) {
            const wg_term *t = terms + m;
            const double *x = t->x + j * t->x_step;
            if (t->p)
                wg_add_product(add || m, n, x, t->p, out);
            else
                wg_add_multiple(add || m, n, x, t->c[j * t->c_step], out);
        }
}

/* Add sum(x * p), or sum(x) if p is NULL, over n elements to each of the k elements of a row. */
WG_CLONES void wg_add_sums(ptrdiff_t k, ptrdiff_t n, const double *x, ptrdiff_t x_step, const double *p,
                           double *row) {
    ptrdiff_t i, j, m;
#define WG_SUMS(element)                                       \
    for (j = 0; j < k; j++, x += x_step) {                     \
        double part[8] = {0.0}, sum = 0.0;                     \
        for (i = 0; i + 8 <= n; i += 8)                        \
            for (m = 0; m < 8; m++) part[m] += element(i + m); \
        for (; i < n; i++) sum += element(i);                  \
        for (m = 0; m < 8; m++) sum += part[m];                \
        row[j] += sum;                                         \
    }
#define WG_PLAIN(e) x[e]
#define WG_WEIGHTED(e) (((x[e] == 0.0) | (p[e] == 0.0)) ? 0.0 : x[e] * p[e])
    if (p) {
        WG_SUMS(WG_WEIGHTED)
    } else {
        WG_SUMS(WG_PLAIN)
    }
#undef WG_SUMS
#undef WG_PLAIN
#undef WG_WEIGHTED
}
