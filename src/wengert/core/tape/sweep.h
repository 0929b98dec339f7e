/* The reverse sweep: over the scalar entries of the list, and over the elements of one array entry.
 *
 * Strong zero: in every product of a partial with a cotangent a factor that is exactly 0 gives 0, whatever the
 * other is, so that a branch which was not taken contributes nothing even where its partial is infinite.
 * Skipping an entry whose adjoint is 0 is then only an optimisation.
 */
#ifndef WENGERT_SWEEP_H
#define WENGERT_SWEEP_H

#include "rows.h"

/* Sweep entries below `i` down to `stop`, or to an array entry, whose index is returned (`stop - 1` if none). */
ptrdiff_t wg_sweep(const wg_list *t, ptrdiff_t i, ptrdiff_t stop, double *adjoint, wg_range *ranges, ptrdiff_t k,
                   ptrdiff_t width);
/* Roll the writes forward again from entry `i`, up to an array entry, whose index is returned (n if none). */
ptrdiff_t wg_roll_forward(const wg_list *t, ptrdiff_t i, ptrdiff_t n);
/* adjoint (+)= g * dy/d(operand `side`) over n elements; v: a vector, s: a scalar */
void wg_pull_vv(int op, int side, int add, ptrdiff_t n, const double *g, const double *av, const double *bv,
                const double *yv, double *adjoint);
void wg_pull_vs(int op, int side, int add, ptrdiff_t n, const double *g, const double *av, const double *bv,
                const double *yv, double *adjoint);
void wg_pull_sv(int op, int side, int add, ptrdiff_t n, const double *g, const double *av, const double *bv,
                const double *yv, double *adjoint);
/* adjoint (+)= g * p */
void wg_multiply_add(int add, ptrdiff_t n, const double *g, const double *pv, double *adjoint);
/* y = g * p with strong zero */
void wg_strong(ptrdiff_t n, const double *g, const double *p, double *y);
void wg_strong_number(ptrdiff_t n, const double *g, double p, double *y);
/* adjoint (+)= g, one number */
void wg_add_number(int add, ptrdiff_t n, double g, double *adjoint);
/* partials of one row at one point */
void wg_partials(int op, double a, double b, double y, double *pa, double *pb);

/* Name, opcode, number of operands and cost of every row, in the order of the list above; then the expressions of the
 * value and of the first partials, from which code generators make theirs. */
typedef struct {
    const char *name;
    int opcode, operands, cheap, reads_a, reads_b; /* what dy/da reads, what dy/db reads */
    const char *value, *pa, *pb;
} wg_row;

extern const wg_row wg_rows[];

#endif
