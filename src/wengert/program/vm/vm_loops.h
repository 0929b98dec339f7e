/* The VM's loops: they run scalar code, and array code in chunks that stay in the cache.
 *
 * A step (VM instruction) runs one of these loops or a copy; consecutive steps run without Python.  Scalars live in
 * slots, arrays at the addresses in `where`.  Within a vector step each operand slot is a pointer: to a temporary
 * chunk, into an array (inputs and results are accessed in place), or to a scalar.
 * Further operands of an instruction are in the next record (`wg_code`).
 */
#ifndef WENGERT_VM_LOOPS_H
#define WENGERT_VM_LOOPS_H

#include <stddef.h>
#include <stdint.h>

#include "list.h"
#include "native.h"
#include "small_matmul.h"
#include "thread_pool.h"

/* WG_DEBUG is set in a build for tests: each buffer is allocated separately, between canaries or the red zones of
 * AddressSanitizer, and bounds.pxi checks lowered steps against the buffers. */
#ifndef WG_DEBUG
#define WG_DEBUG 0
#endif
#if WG_DEBUG && !defined(__SANITIZE_ADDRESS__)
enum { WG_FENCE = 64 }; /* bytes of canaries on each side */
#else
enum { WG_FENCE = 0 };
#endif

/* R(name, value): elementwise operations that only programs have; the powers have the special values of libm's pow */
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
    R(AND, ((a != 0.0) & (b != 0.0)) ? 1.0 : 0.0)            \
    R(OR, ((a != 0.0) | (b != 0.0)) ? 1.0 : 0.0)             \
    R(STRONG, ((a == 0.0) | (b == 0.0)) ? 0.0 : a * b)

/* Fused pairs of operations: t = a op b is an operand of t op z, and is neither stored nor loaded.  Suffixes: _VS, _SV
 * as below, and _Z if z is a scalar. P(name of the pair, a op b, a, b, t op z); a0 and b0 are scalars. */
#define WG_SECONDS(P, FIRST, first, a, b)                    \
    P(FIRST##_ADD, first, a, b, t + z)                       \
    P(FIRST##_SUBTRACT, first, a, b, t - z)                  \
    P(FIRST##_SUBTRACTED, first, a, b, z - t)                \
    P(FIRST##_MULTIPLY, first, a, b, t * z)                  \
    P(FIRST##_STRONG, first, a, b, WG_STRONG_PRODUCT(t, z))
#define WG_STRONG_PRODUCT(a, b) ((((a) == 0.0) | ((b) == 0.0)) ? 0.0 : (a) * (b))
#define WG_PAIRS(P)                                                         \
    WG_SECONDS(P, ADD, a + b, A[i], B[i])                                   \
    WG_SECONDS(P, ADD_VS, a + b, A[i], b0)                                  \
    WG_SECONDS(P, SUBTRACT, a - b, A[i], B[i])                              \
    WG_SECONDS(P, SUBTRACT_VS, a - b, A[i], b0)                             \
    WG_SECONDS(P, SUBTRACT_SV, a - b, a0, B[i])                             \
    WG_SECONDS(P, MULTIPLY, a * b, A[i], B[i])                              \
    WG_SECONDS(P, MULTIPLY_VS, a * b, A[i], b0)                             \
    WG_SECONDS(P, STRONG, WG_STRONG_PRODUCT(a, b), A[i], B[i])              \
    WG_SECONDS(P, STRONG_VS, WG_STRONG_PRODUCT(a, b), A[i], b0)

/* The VM's opcodes. _VS: b is a scalar; _SV: a is a scalar; _PA, _PB: partials with respect to a and b. */
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
    WG_M_LOOP,   /* a ufunc's inner loop; next record: its index, and which operands are vectors */
    /* scalar code only */
    WG_M_LOAD,  /* element b of array a */
    WG_M_LOAD_BOOL,
    WG_M_GUARD, /* fails with index y unless a and b are bit-identical or both NaN */
    WG_M_GUARD_INT, /* like GUARD for an integer: 0.0 equals -0.0 */
    WG_M_END,
    /* vector code only */
    WG_M_EXACT,       /* a partial by the eager sweep's loop; next record: opcode, side and form */
    WG_M_GET,         /* load doubles at a stride of b bytes */
    WG_M_PUT,
    WG_M_GET_BOOL,    /* load bools at a stride of b bytes */
    WG_M_PUT_BOOL,
    WG_M_SUM,         /* add to accumulator b */
    WG_M_GATHER,      /* elements of b at the indices in a */
    WG_M_QUOTIENT,    /* partial of a quotient a with respect to its scalar divisor b */
    WG_M_ONE,         /* the next instruction computes only the first element, since the chunk is constant */
    WG_M_GET_ROWS,    /* GET, PUT ... for several short rows; next record: row length, stride in bytes, and pitch */
    WG_M_PUT_ROWS,
    WG_M_GET_BOOL_ROWS,
    WG_M_PUT_BOOL_ROWS,
    WG_M_SUM_ROWS,    /* SUM row by row */
    WG_M_FOLD, /* reduce into the array at y; b: 2 * function, + 1 to accumulate; next record: row length, 0 for the
                  whole chunk, and the strides of y in bytes across rows and along them */
#define R(name, ...) WG_M_##name, WG_M_##name##_Z, /* z in the next record */
    WG_PAIRS(R)
#undef R
    WG_M_OPS
};

typedef struct {
    int32_t op, a, b, y;
} wg_code;

typedef struct { /* inner loop of a ufunc */
    void (*run)(char **args, const ptrdiff_t *dims, const ptrdiff_t *steps, void *data);
    void *data;
    int nin;
} wg_loop;

typedef int (*wg_partial_loop)(int form, int op, int side, int add, ptrdiff_t n, const double *g, const double *a,
                               const double *b, const double *y, double *out);

/* Chunks are padded, since addresses that differ by a multiple of a page map to the same cache set. */
enum { WG_CHUNK = 512, WG_CHUNK_APART = 536 };
enum { WG_BLOCK = 1 << 15 };    /* elements per block; longer steps run in blocks */
enum { WG_MIN_SHARED_WORK = 300000 }; /* threads share steps of at least this work (operations times elements) */
enum { WG_MIN_MEMCPY = 8 }; /* minimum row length for which memcpy is faster than a loop */
enum { WG_NUMBERS, WG_VECTOR, WG_COPY, WG_PACK, WG_PUT, WG_SCATTER, WG_PRODUCT, WG_COMPILED, WG_NATIVE, WG_PYTHON }; /* kinds of steps */

typedef struct {
    int kind;
    const wg_code *code;
    ptrdiff_t count;
    double work; /* operations times elements */
    /* VECTOR: temporary chunks in the slots [first, first + chunks), and tables */
    int ndim, first, chunks, walks, numbers, fills, sums;
    int rows;                 /* rows per chunk if inner axes are short, else 1 */
    int pitch;                /* elements from one row start to the next in a chunk; gaps are not stored */
    const ptrdiff_t *shape;   /* inner axis last */
    const ptrdiff_t *strides; /* ndim per walk */
    const int32_t *walk;      /* (pointer slot, array) */
    const int32_t *number;    /* (pointer slot, scalar slot) */
    const int32_t *fill;      /* (pointer slot, scalar slot) of a scalar that fills a chunk */
    const int32_t *sum;       /* scalar slots of the sums */
    /* COPY: `size` bytes from `source`, zeros if negative; PACK: `size` scalars to elements;
     * PUT, SCATTER: store or add `size` elements of `source`; `count` > 0: elements of a second accumulator */
    int32_t array, source;
    ptrdiff_t size;
    const int32_t *offsets, *slots;
    const wg_product *product; /* PRODUCT: stored in `array` or a slot */
    const wg_native *native;   /* NATIVE: left to Python if the kernel declines */
    /* COMPILED: returns the index of a failed guard, or -1 */
    int32_t (*run)(double *slots, char **where, const int32_t *table);
    const int32_t *table; /* arrays and slots; for a step in blocks, also the slots of its sums and the range */
    ptrdiff_t entries;
    /* VECTOR and COMPILED: `length` of the first axis, processed `block` indices at a time; 0: without blocks */
    ptrdiff_t block, length;
} wg_step;

typedef struct wg_space {
    double *slots;
    char **where;    /* address of the first element of each array */
    double *scratch; /* chunks */
    double **chunk;  /* pointers of the current vector step, by slot */
    ptrdiff_t *index;
    char *native;    /* packed operands of a native call */
    double *ones;
    double *sums;
    const wg_loop *loops;
    wg_partial_loop partial;
    double *blocks;  /* partial sums per block, after the slots */
    int32_t *table;  /* for one block of a compiled step */
    const struct wg_space *others; /* one per helper thread, with its own chunks, index and table */
    int helpers;
} wg_space;

/* Run steps from `i` until one that needs Python; return its index, or `count` at the end.
 * `failed` is set to the index of a failed guard, or -1. */
ptrdiff_t wg_run(const wg_step *steps, ptrdiff_t i, ptrdiff_t count, const wg_space *w, int32_t *failed);
/* Return the VM's opcode for a row of kernels.h or a partial, or -1. */
int wg_machine_op(int op);
int wg_pair_op(int first, int second, int side);
/* VM opcodes of elementwise instructions outside kernels.h, by name; ends with a null name. */
typedef struct {
    const char *name;
    int op;
} wg_named_op;

extern const wg_named_op wg_named_ops[];
/* Whether an operation of kernels.h has vector code here; if not, the ufunc's own loop runs. */
int wg_is_vector_code(int op);
/* Whether an operation of kernels.h is correctly rounded, so that all implementations agree bit for bit. */
int wg_is_correctly_rounded(int op);

#endif
