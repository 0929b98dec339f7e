/* The machine's loops: code on numbers, and code on arrays in chunks that stay in the cache.
 *
 * A step is one of these loops or a copy; consecutive steps run without Python.  Numbers live in slots, arrays
 * where `where` says.  Within a vector step a pointer per slot says where the chunk of an operand lies: in a
 * temporary chunk, inside of an array (inputs and results are walked where they are), or at a number.
 * Instructions that need a third operand or more have it in the record behind them.
 */
#ifndef WENGERT_VM_LOOPS_H
#define WENGERT_VM_LOOPS_H

#include <stddef.h>
#include <stdint.h>

#include "list.h"
#include "small_matmul.h"
#include "thread_pool.h"

/* A build for tests: each buffer stands alone, between canaries or the red zones of AddressSanitizer, and each step is
 * checked against the buffers when it is made (bounds.pxi). */
#ifndef WG_DEBUG
#define WG_DEBUG 0
#endif
#if WG_DEBUG && !defined(__SANITIZE_ADDRESS__)
enum { WG_FENCE = 64 }; /* bytes of canaries on either side */
#else
enum { WG_FENCE = 0 };
#endif

/* R(name, value): what only programs have, elementwise; first powers, as libm's pow gives them */
#define WG_LOGIC_UNARY(R)                                    \
    R(CUBE, a * a * a)                                       \
    R(FOURTH, (a * a) * (a * a))                             \
    R(ROOT, a == -INFINITY ? INFINITY : sqrt(a) + 0.0)       \
    R(NOT, a == 0.0 ? 1.0 : 0.0)                             \
    R(ISNAN, a != a ? 1.0 : 0.0)
#define WG_LOGIC_BINARY(R)                                   \
    R(LESS, a < b ? 1.0 : 0.0)                               \
    R(LESS_EQUAL, a <= b ? 1.0 : 0.0)                        \
    R(GREATER, a > b ? 1.0 : 0.0)                            \
    R(GREATER_EQUAL, a >= b ? 1.0 : 0.0)                     \
    R(EQUAL, a == b ? 1.0 : 0.0)                             \
    R(NOT_EQUAL, a != b ? 1.0 : 0.0)                         \
    R(AND, (a != 0.0) & (b != 0.0) ? 1.0 : 0.0)              \
    R(OR, (a != 0.0) | (b != 0.0) ? 1.0 : 0.0)               \
    R(STRONG, (a == 0.0) | (b == 0.0) ? 0.0 : a * b)

/* The machine's opcodes. _VS, _SV: a vector and a number, a number and a vector. */
enum {
#define R(NAME, ...) WG_M_##NAME, WG_M_##NAME##_PA,
    WG_UNARY(R)
#undef R
#define R(NAME, ...) WG_M_##NAME, WG_M_##NAME##_VS, WG_M_##NAME##_SV, WG_M_##NAME##_PA, WG_M_##NAME##_PB,
    WG_BINARY(R)
#undef R
#define R(NAME, ...) WG_M_##NAME,
    WG_LOGIC_UNARY(R)
#undef R
#define R(NAME, ...) WG_M_##NAME, WG_M_##NAME##_VS, WG_M_##NAME##_SV,
    WG_LOGIC_BINARY(R)
#undef R
    WG_M_SELECT, /* a ? b : c */
    WG_M_LOOP,   /* the loop of a ufunc: number and strides in the record behind */
    /* numbers only */
    WG_M_LOAD,  /* element b of array a */
    WG_M_LOAD_BOOL,
    WG_M_GUARD, /* are the bits of a those of slot b, or both NaN? y is what to return if not */
    WG_M_GUARD_INT, /* the same for an integer, where 0 has no sign */
    WG_M_END,
    /* chunks only */
    WG_M_EXACT,       /* a partial by the sweep's own loop: opcode, side and form in the record behind */
    WG_M_GET,         /* doubles b bytes apart */
    WG_M_PUT,
    WG_M_GET_BOOL,    /* booleans b bytes apart */
    WG_M_PUT_BOOL,
    WG_M_SUM,         /* into accumulator y */
    WG_M_GATHER,      /* elements of b at the places in a */
    WG_M_ONE,         /* what follows is the same all along the chunk: its first element */
    WG_M_GET_ROWS,    /* the same as GET, PUT ... of short rows; behind: their length, bytes from one to the next */
    WG_M_PUT_ROWS,
    WG_M_GET_BOOL_ROWS,
    WG_M_PUT_BOOL_ROWS,
    WG_M_SUM_ROWS,    /* SUM, row by row */
    WG_M_FOLD, /* into what lies at y; b: 2 * function, + 1 where something is there; behind: length of a row, or 0 for
                  all of the chunk, and bytes at y from row to row and from element to element */
    WG_M_OPS
};

typedef struct {
    int32_t op, a, b, y;
} wg_code;

typedef struct { /* the inner loop of a ufunc */
    void (*run)(char **args, const ptrdiff_t *dims, const ptrdiff_t *steps, void *data);
    void *data;
    int nin;
} wg_loop;

typedef int (*wg_partial_loop)(int form, int op, int side, int add, ptrdiff_t n, const double *g, const double *a,
                               const double *b, const double *y, double *out);

/* Chunks lie a little further apart than they are long, since caches put what lies a page apart in the same place. */
enum { WG_CHUNK = 512, WG_CHUNK_APART = 536 };
enum { WG_BLOCK = 1 << 15 };    /* elements from which on a step is done in blocks */
enum { WG_WORTH_HELP = 300000 }; /* operations of a step, times elements, from which on helpers are asked */
enum { WG_MOVED = 8 }; /* elements of a row from which on memcpy is faster than a loop */
enum { WG_NUMBERS, WG_VECTOR, WG_COPY, WG_PACK, WG_PUT, WG_SCATTER, WG_PRODUCT, WG_COMPILED, WG_PYTHON }; /* kinds of steps */

typedef struct {
    int kind;
    const wg_code *code;
    ptrdiff_t count;
    double work; /* operations times elements */
    /* VECTOR: `chunks` temporary ones in the slots from `first` on, and lists */
    int ndim, first, chunks, walks, numbers, fills, sums;
    int rows;                 /* of a chunk, where inner axes are short; else 1 */
    const ptrdiff_t *shape;   /* inner axis last */
    const ptrdiff_t *strides; /* of each walk, ndim each */
    const int32_t *walk;      /* (slot, array) */
    const int32_t *number;    /* (slot, number) */
    const int32_t *fill;      /* (slot, number): a number as a chunk */
    const int32_t *sum;       /* numbers */
    /* COPY: `size` bytes from `source`, or zeros where that is negative; PACK: `size` numbers into elements;
     * PUT, SCATTER: `size` elements of `source` into elements, or added to them; `count` places, or 0 for many */
    int32_t array, source;
    ptrdiff_t size;
    const int32_t *offsets, *slots;
    const wg_product *product; /* PRODUCT: into `array` or a number */
    /* COMPILED: a guard's number if one fails, else -1 */
    int32_t (*run)(double *slots, char **where, const int32_t *table);
    const int32_t *table; /* of arrays and numbers; of a step in blocks then its sums, and the range */
    ptrdiff_t entries;
    /* VECTOR and COMPILED: `block` of `length` indices of the first axis at a time; 0: all at once */
    ptrdiff_t block, length;
} wg_step;

typedef struct wg_space {
    double *slots;
    char **where;    /* first element of each array */
    double *scratch; /* chunks */
    double **chunk;  /* a pointer per slot of a vector step */
    ptrdiff_t *index;
    double *ones;
    double *sums;
    const wg_loop *loops;
    wg_partial_loop partial;
    double *blocks;  /* sums of each block of a step, behind the slots */
    int32_t *table;  /* of a block */
    const struct wg_space *others; /* for helpers, whose chunks, indices and tables are their own */
    int helpers;
} wg_space;

/* Run steps from `i` on until one that needs Python, whose number is returned (`count` if none);
 * `failed` is the number of a guard that failed, or -1. */
ptrdiff_t wg_run(const wg_step *steps, ptrdiff_t i, ptrdiff_t count, const wg_space *w, int32_t *failed);
/* The machine's opcode for one of a listing's rows and partials, or -1. */
int wg_machine_op(int op);
/* Those of the other elementwise instructions and of powers with a constant exponent, by name; the last has none. */
typedef struct {
    const char *name;
    int op;
} wg_named_op;

extern const wg_named_op wg_named_ops[];
/* Is the value of a row, in a loop over an array, vector code here?  Otherwise the ufunc's own loop runs. */
int wg_is_vector_code(int op);
/* Is a row's C expression what every implementation gives, to the last bit? */
int wg_is_correctly_rounded(int op);
/* One row over n elements as vector steps compute it, and at numbers: for tests. */
void wg_values(int op, ptrdiff_t n, double *a, double *b, double *y);

#endif
