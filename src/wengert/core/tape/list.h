/* The Wengert list as C sees it: v_i = phi_i(v_a, v_b), entry i in slot i of flat arrays. */
#ifndef WENGERT_LIST_H
#define WENGERT_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "kernels.h"

/* Loops over arrays are compiled for several instruction sets and chosen at run time, where the platform can; those of
 * the VM, whose arrays stay in cache, for one more. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WG_CLONES __attribute__((target_clones("avx2", "default")))
#define WG_VM_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WG_CLONES
#define WG_VM_CLONES
#endif

/* Of a loop none of whose elements depends on another. Where the compiler compared addresses instead, and took vectors
 * or numbers by the outcome, results would depend on them: glibc's functions round otherwise on vectors. */
#if defined(__GNUC__) && !defined(__clang__)
#define WG_IVDEP _Pragma("GCC ivdep")
#else
#define WG_IVDEP
#endif

/* For what must become part of its caller, which is compiled for another instruction set or for a fixed k. */
#if defined(__GNUC__)
#define WG_INLINE static inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define WG_INLINE static __forceinline
#else
#define WG_INLINE static inline
#endif

typedef struct {
    uint8_t *op;
    int32_t *a, *b;
    double *v;         /* value of slot i */
    double *constants; /* operands that are no slots */
    char **memory;     /* of buffer i */
    char **shadow;     /* adjoint of buffer i: k directions, `span` bytes apart */
    ptrdiff_t *span;
} wg_list;

/* Exchange what an entry wrote with what it overwrote: backwards this undoes the write, forwards it redoes it. */
static inline void wg_swap(const wg_list *t, ptrdiff_t i) {
    double *place = (double *)t->memory[t->a[i + 1]] + t->b[i];
    const double other = *place;
    *place = t->v[i];
    t->v[i] = other;
}

#endif
