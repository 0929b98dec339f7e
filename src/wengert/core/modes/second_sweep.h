/* Forward over reverse on one list, k directions at once: tangents of all slots, then their adjoints' tangents.
 *
 *   tangent_i = sum of dy/d(operand) * tangent_operand
 *   adjoint_a += adjoint_i * pa
 *   second_a  += second_i * pa + adjoint_i * (paa * tangent_a + pab * tangent_b)
 *
 * `second` is the tangent of the adjoint. Strong zero holds in every product: see sweep.h.
 */
#ifndef WENGERT_SECOND_SWEEP_H
#define WENGERT_SECOND_SWEEP_H

#include "rows.h"

typedef struct {
    double *adjoint;                        /* of slot i: one number */
    double *tangent, *second;               /* a row of k numbers */
    wg_range *tangents, *seconds;           /* and what is known of it; with k = 1 rows are whole, ranges unused */
    char **tangent_memory, **second_memory; /* of buffer i: k directions, `span` bytes apart */
    ptrdiff_t *unit;                        /* element e moves in direction e - unit alone; or WG_NOT_UNIT */
} wg_second;

#define WG_NOT_UNIT PTRDIFF_MIN

enum { WG_PA, WG_PB, WG_PAA, WG_PAB, WG_PBB }; /* columns of kernels.h */

/* A product, for each direction j, over n elements: x[j] times the factors p, or times one number for direction j.
 * The steps lead from one direction to the next. */
typedef struct {
    const double *x, *p, *c; /* p or c is NULL */
    ptrdiff_t x_step, c_step;
} wg_term;

/* Tangents of entries from `i` on, up to an array entry, whose index is returned (n if none). */
ptrdiff_t wg_tangents(const wg_list *t, const wg_second *s, ptrdiff_t i, ptrdiff_t n, ptrdiff_t k);
/* Sweep entries below `i` down to `stop`, or to an array entry, whose index is returned (`stop - 1` if none). */
ptrdiff_t wg_seconds(const wg_list *t, const wg_second *s, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t k);
/* Undo the writes of all entries below `i`, down to an array entry, whose index is returned (-1 if none). */
ptrdiff_t wg_roll_back(const wg_list *t, ptrdiff_t i);
/* one partial of a row over n elements; v: a vector, s: a scalar */
void wg_column_vv(int op, int column, ptrdiff_t n, const double *av, const double *bv, const double *yv, double *out);
void wg_column_vs(int op, int column, ptrdiff_t n, const double *av, const double *bv, const double *yv, double *out);
void wg_column_sv(int op, int column, ptrdiff_t n, const double *av, const double *bv, const double *yv, double *out);
/* Is a column of a row 0 everywhere? */
int wg_is_zero(int op, int column);
/* Do the partials of a row call functions? Then they are worth keeping. */
int wg_is_costly(int op);
/* out[j] (+)= sum of the terms, in k directions */
void wg_combine(ptrdiff_t k, ptrdiff_t n, const wg_term *terms, int count, int add, double *out, ptrdiff_t out_step);
/* Sum of n elements, times factors p if there are any, in each of k directions, added to a row. */
void wg_add_sums(ptrdiff_t k, ptrdiff_t n, const double *x, ptrdiff_t x_step, const double *p, double *row);

#endif
