/* Rows of k doubles, one per direction, each with the range of directions that may be nonzero.
 *
 * A slot of scalar code depends on few directions, and few results depend on it, so ranges stay short.
 * Elements outside the range are uninitialised and never read.
 */
#ifndef WENGERT_ROWS_H
#define WENGERT_ROWS_H

#include "list.h"

typedef struct {
    int32_t low, high; /* directions; empty where low >= high */
} wg_range;

/* Ranges of grouped rows are aligned to groups, so that loops use whole vector instructions without a remainder. */
enum { WG_GROUP = 4 };

/* Extend a range to include another, zeroing the elements it gains. */
WG_INLINE void wg_widen(double *row, wg_range *r, wg_range other) {
    if (r->low >= r->high) *r = (wg_range){other.low, other.low};
    for (; r->low > other.low; r->low--) row[r->low - 1] = 0.0;
    for (; r->high < other.high; r->high++) row[r->high] = 0.0;
}

/* y += p * x in groups of `group` elements; with k = 1 rows are scalars without ranges */
WG_INLINE void wg_add_row(double *restrict y, wg_range *ry, const double *restrict x, wg_range rx, double p,
                          const ptrdiff_t k, const int32_t group) {
    int32_t j, l;
    if (k == 1) {
        if (x[0] != 0.0 && p != 0.0) y[0] += p * x[0];
        return;
    }
    if (p == 0.0 || rx.low >= rx.high) return;
    if (ry->low >= ry->high && isfinite(p)) {
        for (j = rx.low; j < rx.high; j += group)
            for (l = j; l < j + group; l++) y[l] = 0.0 + p * x[l]; /* 0, not -0 */
        *ry = rx;
        return;
    }
    if (rx.low < ry->low || rx.high > ry->high) wg_widen(y, ry, rx);
    if (!isfinite(p)) {
        for (j = rx.low; j < rx.high; j++)
            if (x[j] != 0.0) y[j] += p * x[j];
    } else
        for (j = rx.low; j < rx.high; j += group)
            for (l = j; l < j + group; l++) y[l] += p * x[l];
}

WG_INLINE wg_range wg_trimmed(const double *row, ptrdiff_t k) {
    wg_range r = {0, (int32_t)k};
    if (k == 1) return r;
    while (r.low < r.high && row[r.low] == 0.0) r.low++;
    while (r.high > r.low && row[r.high - 1] == 0.0) r.high--;
    return r;
}

WG_INLINE wg_range wg_in_groups(wg_range r) {
    if (r.low >= r.high) return r;
    return (wg_range){r.low / WG_GROUP * WG_GROUP, (r.high + WG_GROUP - 1) / WG_GROUP * WG_GROUP};
}

/* Address of a row with all its elements initialised, for callers that ignore ranges. */
static inline double *wg_whole(double *rows, wg_range *ranges, ptrdiff_t i, ptrdiff_t k) {
    if (k > 1) wg_widen(rows + i * k, ranges + i, (wg_range){0, (int32_t)k});
    return rows + i * k;
}

#endif
