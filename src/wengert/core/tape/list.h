/* The Wengert list in C: v_i = phi_i(v_a, v_b), entry i in element i of flat arrays. */
#ifndef WENGERT_LIST_H
#define WENGERT_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "kernels.h"

/* Array loops are compiled for several instruction sets and dispatched at run time where the platform supports it.
 * Loops of the VM get one more, AVX-512, since their arrays stay in cache. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WG_CLONES __attribute__((target_clones("avx2", "default")))
#define WG_VM_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WG_CLONES
#define WG_VM_CLONES
#endif

/* Marks a loop without dependences between iterations. Otherwise the compiler would choose vector or scalar code by
 * comparing addresses, and results would vary with them, since glibc's vector functions round differently. */
#if defined(__GNUC__) && !defined(__clang__)
#define WG_IVDEP _Pragma("GCC ivdep")
#else
#define WG_IVDEP
#endif

/* Forces inlining into a caller that is compiled for another instruction set or for a constant k. */
#if defined(__GNUC__) || defined(__clang__) /* clang for Windows defines only __clang__ */
#define WG_INLINE static inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define WG_INLINE static __forceinline
#else
#define WG_INLINE static inline
#endif

/* Which operands of a loop over elements are arrays. */
enum { WG_VECTORS, WG_SCALAR_RIGHT, WG_SCALAR_LEFT };

typedef struct {
    uint8_t *op;
    int32_t *a, *b;
    double *v;         /* value of slot i */
    double *constants; /* operands that are not slots */
    char **memory;     /* address of buffer i */
    char **shadow;     /* adjoint of buffer i: k directions at a stride of `span` bytes */
    ptrdiff_t *span;
} wg_list;

/* Exchange the value that a store wrote with the one it overwrote: undoes it in the sweep, redoes it afterwards. */
static inline void wg_swap(const wg_list *t, ptrdiff_t i) {
    double *place = (double *)t->memory[t->a[i + 1]] + t->b[i];
    const double other = *place;
    *place = t->v[i];
    t->v[i] = other;
}

#endif
