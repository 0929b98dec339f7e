/* The reverse sweep, over the scalar entries of the tape and over the elements of one array entry.
 *
 * Strong zero: a product of a partial and a cotangent is 0 if either factor is exactly 0, whatever the other one is.
 * A branch that was not taken thus contributes nothing even where its partial is infinite,
 * and skipping an entry whose adjoint is 0 changes no result.
 */
#ifndef WENGERT_SWEEP_H
#define WENGERT_SWEEP_H

#include "rows.h"

/* Sweep entries below `i` down to `stop` or to an array entry; return the index of that entry, else `stop - 1`. */
ptrdiff_t wg_sweep(const wg_list *t, ptrdiff_t i, ptrdiff_t stop, double *adjoint, wg_range *ranges, ptrdiff_t k,
                   ptrdiff_t width);
/* Redo the stores from entry `i` on, up to an array entry; return the index of that entry, else n. */
ptrdiff_t wg_roll_forward(const wg_list *t, ptrdiff_t i, ptrdiff_t n);
/* adjoint (+)= g * dy/d(operand `side`) over n elements */
void wg_pull(int form, int op, int side, int add, ptrdiff_t n, const double *g, const double *av, const double *bv,
             const double *yv, double *adjoint);
/* adjoint (+)= g * p */
void wg_multiply_add(int add, ptrdiff_t n, const double *g, const double *pv, double *adjoint);
/* y = g * p with strong zero; `step` is 1, or 0 for a scalar p */
void wg_strong(ptrdiff_t n, const double *g, const double *p, int step, double *y);
void wg_rank_one(int add, ptrdiff_t m, ptrdiff_t n, const double *u, const double *v, double *adjoint, ptrdiff_t step);
/* adjoint (+)= g for a scalar g */
void wg_add_scalar(int add, ptrdiff_t n, double g, double *adjoint);
/* partials of the row `op` at one point */
void wg_partials(int op, double a, double b, double y, double *pa, double *pb);

/* Name, opcode, arity, cost and reads of each row, in the order of kernels.h; then the C expressions of the value and
 * of the first partials, which code generators use. */
typedef struct {
    const char *name;
    int opcode, operands, cheap, reads_a, reads_b; /* reads_x: operands that dy/dx reads, WG_A | WG_B | WG_Y */
    const char *value, *pa, *pb;
} wg_row;

extern const wg_row wg_rows[];
extern const char *const wg_helpers[]; /* texts of the C functions in helpers.h */

#endif
