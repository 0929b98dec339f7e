/* Forward over reverse on one tape, k directions at once: tangents of all slots, then the tangents of their adjoints.
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
    double *adjoint;                        /* one scalar per slot */
    double *tangent, *second;               /* a row of k doubles per slot, */
    wg_range *tangents, *seconds;           /* and the range that may be nonzero; unused with k = 1 */
    char **tangent_memory, **second_memory; /* of buffer i: k directions at a stride of `span` bytes */
    ptrdiff_t *unit;                        /* the tangent of element e is the unit vector e - unit; or WG_NOT_UNIT */
} wg_second;

#define WG_NOT_UNIT PTRDIFF_MIN

enum { WG_PA, WG_PB, WG_PAA, WG_PAB, WG_PBB }; /* columns of kernels.h */

/* A product over n elements, for each direction j: x[j] times the vector p, or times the scalar c[j].
 * The steps are the strides between directions. */
typedef struct {
    const double *x, *p, *c; /* p or c is NULL */
    ptrdiff_t x_step, c_step;
} wg_term;

/* Compute the tangents of entries from `i` on, up to an array entry; return its index, else n. */
ptrdiff_t wg_tangents(const wg_list *t, const wg_second *s, ptrdiff_t i, ptrdiff_t n, ptrdiff_t k);
/* Sweep entries below `i` down to `stop` or to an array entry; return the index of that entry, else `stop - 1`. */
ptrdiff_t wg_seconds(const wg_list *t, const wg_second *s, ptrdiff_t i, ptrdiff_t stop, ptrdiff_t k);
/* Undo the stores of the entries below `i`, down to an array entry; return its index, else -1. */
ptrdiff_t wg_roll_back(const wg_list *t, ptrdiff_t i);
/* one column of a row over n elements */
void wg_column(int form, int op, int column, ptrdiff_t n, const double *av, const double *bv, const double *yv,
               double *out);
/* Whether a column of a row is 0 everywhere. */
int wg_is_zero(int op, int column);
/* Do the partials of a row call library functions? They are then saved by the forward sweep. */
int wg_is_costly(int op);
/* out[j] (+)= sum of the terms, for each of k directions */
void wg_combine(ptrdiff_t k, ptrdiff_t n, const wg_term *terms, int count, int add, double *out, ptrdiff_t out_step);
/* Add sum(x * p), or sum(x) if p is NULL, over n elements to each of the k elements of a row. */
void wg_add_sums(ptrdiff_t k, ptrdiff_t n, const double *x, ptrdiff_t x_step, const double *p, double *row);

#endif
