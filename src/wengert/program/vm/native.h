/* Native calls: functions of small arrays that a VM instruction computes in C, on operands packed contiguously.
 *
 * A kernel returns 0, or 1 to decline; the VM then calls the NumPy function on the same operands, so that errors,
 * warnings and rare cases (singular matrices, ties, NaN) are NumPy's own.
 */
#ifndef WENGERT_NATIVE_H
#define WENGERT_NATIVE_H

#include <stddef.h>
#include <stdint.h>

/* Element types of kernels, and conversions when an operand is packed or a result stored. */
enum { WG_T_BOOL, WG_T_INT, WG_T_DOUBLE, WG_T_COMPLEX };
enum { WG_SAME_1, WG_SAME_8, WG_SAME_16, WG_BOOL_INT, WG_BOOL_DOUBLE, WG_INT_DOUBLE, WG_DOUBLE_COMPLEX,
       WG_DOUBLE_BOOL, WG_DOUBLE_INT };
enum { WG_MAX_AXES = 16, WG_MAX_OPERANDS = 64 };

typedef struct {
    int32_t array;        /* index of the array; -1: the operand is in `slot` or `constant` */
    int32_t slot;         /* slot of a scalar; -1: the operand is in `constant`, already packed */
    const char *constant;
    int conversion, ndim, is_packed; /* is_packed: contiguous and of the right type */
    const ptrdiff_t *shape, *strides;
    ptrdiff_t size, bytes; /* elements; bytes when packed, rounded up to 16 */
} wg_operand;

struct wg_native;
typedef int (*wg_kernel)(const struct wg_native *call, char **in, char *out, char *spare);

/* Inner loop of a ufunc. */
typedef struct {
    void (*run)(char **args, const ptrdiff_t *dims, const ptrdiff_t *steps, void *data);
    void *data;
} wg_inner_loop;

typedef struct wg_native {
    wg_kernel run;
    const int64_t *params;
    int count;
    const wg_operand *operands;
    wg_operand result;
    ptrdiff_t spare; /* offset of the kernel's own memory behind the packed operands */
    wg_inner_loop loops[2];
} wg_native;

typedef struct {
    const char *name;
    wg_kernel run;
} wg_named_kernel;

extern const wg_named_kernel wg_named_kernels[]; /* ends with a null name */

/* Compute a call; `memory` receives the packed operands. Returns 0, or 1 if the kernel declined. */
int wg_call_native(const wg_native *call, double *slots, char **where, char *memory);

#if defined(__GNUC__) || defined(__clang__)
#define WG_UNUSED __attribute__((unused))
#else
#define WG_UNUSED
#endif
#define WG_KERNEL(name) int name(const wg_native *call, char **in, WG_UNUSED char *out, WG_UNUSED char *spare)

/* native_linalg.c */
WG_KERNEL(wg_solve);
WG_KERNEL(wg_inverse);
WG_KERNEL(wg_determinant);
WG_KERNEL(wg_cholesky);
WG_KERNEL(wg_cholesky_adjoint);
WG_KERNEL(wg_qr);

#endif
