/* The Wengert list as C sees it: v_i = phi_i(v_a, v_b), entry i in slot i of flat arrays. */
#ifndef WENGERT_LIST_H
#define WENGERT_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "kernels.h"

typedef struct {
    uint8_t *op;
    int32_t *a, *b;
    double *v;         /* value of slot i */
    double *constants; /* operands that are no slots */
    char **memory;     /* of buffer i */
    char **shadow;     /* adjoint of buffer i: k directions, `span` bytes apart */
    ptrdiff_t *span;
} wg_list;

#endif
