/* The VM's loops: see vm_loops.h. */

#include <string.h>

/* Functions of which glibc has vector versions, with errors of at most 4 ulp; declared for this translation unit. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#include <features.h>
#define WG_SIMD __attribute__((const, simd("notinbranch"))) double
#if __GLIBC_PREREQ(2, 22)
#define WG_VECTOR_POW
WG_SIMD log(double), pow(double, double);
#endif
#if __GLIBC_PREREQ(2, 35)
#define WG_VECTOR_ALL
WG_SIMD acos(double), acosh(double), asin(double), asinh(double), atan(double), atanh(double), cbrt(double);
WG_SIMD cosh(double), erf(double), exp2(double), expm1(double), hypot(double, double), log10(double), log1p(double);
WG_SIMD log2(double), sinh(double), tan(double), tanh(double);
#endif
#endif

#include "vm_loops.h"

#if defined(__GNUC__)
#define WG_NOT_INLINE __attribute__((noinline)) static
#else
#define WG_NOT_INLINE static
#endif

/* ---- scalar code */

#if defined(__GNUC__)
#define WG_CASE(op) L_##op
#define WG_NEXT goto *labels[c->op]
#else
#define WG_CASE(op) case op
#define WG_NEXT break
#endif

/* Run scalar code; return the index of a failed guard, or -1. */
static int32_t wg_numbers(const wg_code *c, double *S, char **where, const wg_loop *loops) {
#if defined(__GNUC__)
    static const void *const labels[WG_M_OPS] = {
#define R(NAME, ...) [WG_M_##NAME] = &&L_WG_M_##NAME, [WG_M_##NAME##_PA] = &&L_WG_M_##NAME##_PA,
        WG_UNARY(R)
#undef R
#define R(NAME, ...)                                                                     \
    [WG_M_##NAME] = &&L_WG_M_##NAME, [WG_M_##NAME##_PA] = &&L_WG_M_##NAME##_PA, [WG_M_##NAME##_PB] = &&L_WG_M_##NAME##_PB,
        WG_BINARY(R)
#undef R
#define R(NAME, ...) [WG_M_##NAME] = &&L_WG_M_##NAME,
        WG_LOGIC_UNARY(R) WG_LOGIC_BINARY(R)
#undef R
        [WG_M_SELECT] = &&L_WG_M_SELECT, [WG_M_LOOP] = &&L_WG_M_LOOP, [WG_M_LOAD] = &&L_WG_M_LOAD,
        [WG_M_LOAD_BOOL] = &&L_WG_M_LOAD_BOOL, [WG_M_GUARD_INT] = &&L_WG_M_GUARD_INT, [WG_M_GUARD] = &&L_WG_M_GUARD, [WG_M_END] = &&L_WG_M_END,
    };
    WG_NEXT;
#else
    for (;;) switch (c->op) {
#endif
#define WG_VALUE1(name, value)                 \
    WG_CASE(WG_M_##name): {                    \
        const double a = S[c->a];              \
        S[c->y] = (value);                     \
    }                                          \
    c++;                                       \
    WG_NEXT;
#define WG_VALUE2(name, value)                 \
    WG_CASE(WG_M_##name): {                    \
        const double a = S[c->a], b = S[c->b]; \
        S[c->y] = (value);                     \
    }                                          \
    c++;                                       \
    WG_NEXT;
#define WG_VALUE3(name, value)                                \
    WG_CASE(WG_M_##name): {                                   \
        const double a = S[c->a], b = S[c->b], y = S[c[1].a]; \
        (void)a, (void)b, (void)y;                            \
        S[c->y] = (value);                                    \
    }                                                         \
    c += 2;                                                   \
    WG_NEXT;
#define R(NAME, name, cost, value, ua, pa, ...) WG_VALUE1(NAME, value) WG_VALUE3(NAME##_PA, pa)
        WG_UNARY(R)
#undef R
#define R(NAME, name, cost, value, ua, ub, pa, pb, ...) \
    WG_VALUE2(NAME, value) WG_VALUE3(NAME##_PA, pa) WG_VALUE3(NAME##_PB, pb)
        WG_BINARY(R)
#undef R
        WG_LOGIC_UNARY(WG_VALUE1)
        WG_LOGIC_BINARY(WG_VALUE2)
        WG_VALUE3(SELECT, a != 0.0 ? b : y)
    WG_CASE(WG_M_LOAD):
        S[c->y] = ((const double *)where[c->a])[c->b];
        c++;
        WG_NEXT;
    WG_CASE(WG_M_LOAD_BOOL):
        S[c->y] = where[c->a][c->b] != 0;
        c++;
        WG_NEXT;
    WG_CASE(WG_M_LOOP): {
        const wg_loop *loop = &loops[c[1].a];
        static const ptrdiff_t one = 1, steps[3] = {0, 0, 0};
        char *args[3] = {(char *)&S[c->a], (char *)&S[loop->nin == 1 ? c->y : c->b], (char *)&S[c->y]};
        double y;
        args[loop->nin] = (char *)&y; /* not in place, since ufunc loops may test for overlap */
        loop->run(args, &one, steps, loop->data);
        S[c->y] = y;
        c += 2;
        WG_NEXT;
    }
    WG_CASE(WG_M_GUARD):
        if (memcmp(&S[c->a], &S[c->b], sizeof(double)) != 0 && !(S[c->a] != S[c->a] && S[c->b] != S[c->b])) return c->y;
        c++;
        WG_NEXT;
    WG_CASE(WG_M_GUARD_INT):
        if (S[c->a] != S[c->b]) return c->y;
        c++;
        WG_NEXT;
    WG_CASE(WG_M_END):
        return -1;
#if !defined(__GNUC__)
    default: return -1;
    }
#endif
}

/* ---- vector code */

#if defined(__GNUC__) && !defined(__clang__)
#define WG_EACH_OF(n) _Pragma("GCC ivdep") for (i = 0; i < (n); i++)
#else
#define WG_EACH_OF(n) for (i = 0; i < (n); i++)
#endif
#define WG_EACH WG_EACH_OF(n)

/* Lower limit on |b| and on |1 / b|; above it, a / b may be computed as a * (1 / b). */
#define WG_MIN_INVERTED 1e-300

static double wg_chunk_sum(const double *x, ptrdiff_t n) {
    double part[8] = {0.0};
    ptrdiff_t i, m;
    for (i = 0; i + 8 <= n; i += 8)
        for (m = 0; m < 8; m++) part[m] += x[i + m];
    for (; i < n; i++) part[i & 7] += x[i];
    return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

/* Reduce to eight partial results, each over every eighth element. Compilers do not vectorise the comparisons, and each
 * maximum depends on the previous one; comparing pairs of elements first is faster and gives the same result. */
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__aarch64__))
typedef double wg_pair __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t wg_mask __attribute__((vector_size(16)));
#define WG_WHERE(mask, y, x) ((wg_pair)(((wg_mask)(y) & (mask)) | ((wg_mask)(x) & ~(mask))))
#define WG_PAIR_AT(i) (*(const wg_pair *)(a + (i)))
#define WG_EIGHTS(name, BOTH, PAIR, IN_PAIRS)                                                            \
    WG_INLINE ptrdiff_t wg_##name##_eights(double *part, const double *a, ptrdiff_t n) {                 \
        wg_pair sum[4], x, y;                                                                            \
        ptrdiff_t i = 0, m;                                                                              \
        memcpy(sum, part, sizeof(sum));                                                                  \
        for (; IN_PAIRS && i + 16 <= n; i += 16)                                                         \
            for (m = 0; m < 4; m++) {                                                                    \
                x = WG_PAIR_AT(i + 2 * m), y = WG_PAIR_AT(i + 8 + 2 * m);                                \
                y = PAIR, x = sum[m];                                                                    \
                sum[m] = PAIR;                                                                           \
            }                                                                                            \
        for (; i + 8 <= n; i += 8)                                                                       \
            for (m = 0; m < 4; m++) {                                                                    \
                x = sum[m], y = WG_PAIR_AT(i + 2 * m);                                                   \
                sum[m] = PAIR;                                                                           \
            }                                                                                            \
        memcpy(part, sum, sizeof(sum));                                                                  \
        return i;                                                                                        \
    }
#else
#define WG_EIGHTS(name, BOTH, PAIR, IN_PAIRS)                                                            \
    WG_INLINE ptrdiff_t wg_##name##_eights(double *part, const double *a, ptrdiff_t n) {                 \
        ptrdiff_t i, m;                                                                                  \
        for (i = 0; i + 8 <= n; i += 8)                                                                  \
            for (m = 0; m < 8; m++) {                                                                    \
                const double x = part[m], y = a[i + m];                                                  \
                part[m] = BOTH;                                                                          \
            }                                                                                            \
        return i;                                                                                        \
    }
#endif

/* Reductions, instantiated per binary function of x and y; maximum and minimum propagate NaN. */
#define WG_FOLDING(name, FIRST, BOTH, PAIR, IN_PAIRS)                                                    \
    static inline double wg_##name##_of_two(double x, double y) { return BOTH; }                         \
    WG_EIGHTS(name, BOTH, PAIR, IN_PAIRS)                                                                \
    WG_VM_CLONES static double wg_##name##_of_row(const double *a, ptrdiff_t n) {                        \
        double part[8] = {FIRST, FIRST, FIRST, FIRST, FIRST, FIRST, FIRST, FIRST};                       \
        ptrdiff_t i, m;                                                                                  \
        for (i = wg_##name##_eights(part, a, n); i < n; i++)                                             \
            part[i & 7] = wg_##name##_of_two(part[i & 7], a[i]);                                         \
        for (m = 4; m > 0; m /= 2)                                                                       \
            for (i = 0; i < m; i++) part[i] = wg_##name##_of_two(part[i], part[i + m]);                  \
        return part[0];                                                                                  \
    }                                                                                                    \
    /* branch-free version; reads up to the next larger multiple of 8, so memory behind the row must be readable */    \
    WG_INLINE double wg_##name##_of_inner_row(const double *a, ptrdiff_t n) {                            \
        double part[8] = {FIRST, FIRST, FIRST, FIRST, FIRST, FIRST, FIRST, FIRST}, half[4];              \
        const ptrdiff_t i = wg_##name##_eights(part, a, n);                                              \
        ptrdiff_t m;                                                                                     \
        for (m = 0; m < 8; m++) {                                                                        \
            const double next = a[i + m], x = part[m], y = m < n - i ? next : FIRST;                     \
            part[m] = BOTH;                                                                              \
        }                                                                                                \
        for (m = 0; m < 4; m++) {                                                                        \
            const double x = part[m], y = part[m + 4];                                                   \
            half[m] = BOTH;                                                                              \
        }                                                                                                \
        return wg_##name##_of_two(wg_##name##_of_two(half[0], half[2]), wg_##name##_of_two(half[1], half[3])); \
    }                                                                                                    \
    WG_VM_CLONES static void wg_##name##_rows(const wg_code *c, const double *a, char *to, ptrdiff_t n) {\
        const ptrdiff_t length = c[1].a ? c[1].a : n, down = c[1].b, along = c[1].y;                     \
        ptrdiff_t i, done = 0;                                                                           \
        if (along == 0 && !(c->b & 1))                                                                   \
            for (; done + (length / 8 + 1) * 8 <= n; done += length, a += length, to += down)            \
                *(double *)to = wg_##name##_of_inner_row(a, length);                                     \
        for (; done < n; done += length, a += length, to += down) {                                      \
            double *const row = (double *)to;                                                            \
            if (along == 0) {                                                                            \
                const double y = wg_##name##_of_row(a, length);                                          \
                *row = c->b & 1 ? wg_##name##_of_two(*row, y) : y;                                       \
            } else if (along == sizeof(double))                                                          \
                WG_EACH_OF(length) {                                                                     \
                    const double x = row[i], y = a[i];                                                   \
                    row[i] = BOTH;                                                                       \
                }                                                                                        \
            else                                                                                         \
                for (i = 0; i < length; i++) {                                                           \
                    double *const one = (double *)(to + i * along);                                      \
                    *one = wg_##name##_of_two(*one, a[i]);                                               \
                }                                                                                        \
        }                                                                                                \
    }
WG_FOLDING(sum, 0.0, x + y, x + y, 0)
WG_FOLDING(largest, -INFINITY, (((y > x) | (y != y)) ? y : x), WG_WHERE((y > x) | (y != y), y, x), 1)
WG_FOLDING(smallest, INFINITY, (((y < x) | (y != y)) ? y : x), WG_WHERE((y < x) | (y != y), y, x), 1)

static void wg_fold(const wg_code *c, const double *a, char *y, ptrdiff_t n) {
    switch (c->b >> 1) {
    case 0: wg_sum_rows(c, a, y, n); break;
    case 1: wg_largest_rows(c, a, y, n); break;
    default: wg_smallest_rows(c, a, y, n); break;
    }
}

/* Load short rows to a chunk. */
static void wg_get_rows(const wg_code *c, const char *a, double *to, ptrdiff_t n) {
    const ptrdiff_t length = c[1].a, down = c[1].b, pitch = c[1].y, along = c->b;
    ptrdiff_t i, done;
    if (down == 0) { /* the same row repeated: copy the filled part until all is filled */
        for (i = 0; i < length; i++) to[i] = *(const double *)(a + i * along);
        for (done = pitch; done < n; done += i) {
            i = done < n - done ? done : n - done;
            memcpy(to + done, to, i * sizeof(double));
        }
        return;
    }
    for (done = 0; done < n; done += pitch, a += down, to += pitch) {
        if (along == 0 && done + length + 4 <= n) { /* four at a time; the excess is overwritten by the next row */
            const double x = *(const double *)a;
            for (i = 0; i < length; i += 4) to[i] = x, to[i + 1] = x, to[i + 2] = x, to[i + 3] = x;
        } else if (along == sizeof(double) && length >= WG_MIN_MEMCPY)
            memcpy(to, a, length * sizeof(double));
        else
            for (i = 0; i < length; i++) to[i] = *(const double *)(a + i * along);
    }
}

/* Store short rows of doubles or bools from a chunk, or load bools into a chunk. */
static void wg_move_rows(const wg_code *c, const char *a, char *y, ptrdiff_t n) {
    const ptrdiff_t length = c[1].a, down = c[1].b, pitch = c[1].y, along = c->b;
    ptrdiff_t i, done;
    for (done = 0; done < n; done += pitch)
        if (c->op == WG_M_PUT_ROWS) {
            if (along == sizeof(double) && length >= WG_MIN_MEMCPY)
                memcpy(y, a + done * sizeof(double), length * sizeof(double));
            else
                for (i = 0; i < length; i++) *(double *)(y + i * along) = ((const double *)a)[done + i];
            y += down;
        } else if (c->op == WG_M_GET_BOOL_ROWS) {
            for (i = 0; i < length; i++) ((double *)y)[done + i] = a[i * along] != 0;
            a += down;
        } else {
            for (i = 0; i < length; i++) y[i * along] = ((const double *)a)[done + i] != 0.0;
            y += down;
        }
}

static void wg_chunk_loop(const wg_code *c, double **P, ptrdiff_t n, const wg_loop *loop) {
    char *args[3] = {(char *)P[c->a], (char *)P[c->b], (char *)P[c->y]};
    ptrdiff_t steps[3] = {c[1].b & 1 ? sizeof(double) : 0, c[1].b & 2 ? sizeof(double) : 0, sizeof(double)};
    if (loop->nin == 1) args[1] = args[2], steps[1] = steps[2];
    loop->run(args, &n, steps, loop->data);
}

/* Not cloned per instruction set: hardware gather instructions are slower than scalar loads. */
WG_NOT_INLINE void wg_gather(const int32_t *place, const double *from, double *to, ptrdiff_t n) {
    ptrdiff_t i;
    for (i = 0; i + 4 <= n; i += 4) {
        const double x0 = from[place[i]], x1 = from[place[i + 1]], x2 = from[place[i + 2]], x3 = from[place[i + 3]];
        to[i] = x0, to[i + 1] = x1, to[i + 2] = x2, to[i + 3] = x3;
    }
    for (; i < n; i++) to[i] = from[place[i]];
}

WG_VM_CLONES static void wg_chunk(const wg_code *c, ptrdiff_t count, double **P, ptrdiff_t size, const wg_space *w) {
    const wg_code *const end = c + count;
    ptrdiff_t i;
    for (; c < end; c++) {
        const ptrdiff_t n = c->op == WG_M_ONE ? 1 : size;
        const double *A, *B, *Z;
        double *Y;
        if (c->op == WG_M_ONE) c++;
        A = P[c->a], Y = P[c->y];
        switch (c->op) {
#define WG_VECTOR1(name, value)       \
    case WG_M_##name: WG_EACH {       \
            const double a = A[i];    \
            Y[i] = (value);           \
        }                             \
        break;
#define WG_VECTOR2(name, value)                    \
    case WG_M_##name: B = P[c->b]; WG_EACH {       \
            const double a = A[i], b = B[i];       \
            Y[i] = (value);                        \
        }                                          \
        break;                                     \
    case WG_M_##name##_VS: {                       \
        const double b = *P[c->b];                 \
        WG_EACH {                                  \
            const double a = A[i];                 \
            Y[i] = (value);                        \
        }                                          \
    } break;                                       \
    case WG_M_##name##_SV: {                       \
        const double a = *A;                       \
        B = P[c->b];                               \
        WG_EACH {                                  \
            const double b = B[i];                 \
            Y[i] = (value);                        \
        }                                          \
    } break;
#define WG_VECTOR3(name, value)                                             \
    case WG_M_##name: B = P[c->b], c++, Z = P[c->a]; WG_EACH {              \
            const double a = A[i], b = B[i], y = Z[i];                      \
            (void)a, (void)b, (void)y;                                      \
            Y[i] = (value);                                                 \
        }                                                                   \
        break;
#define R(NAME, name, cost, value, ua, pa, ...) WG_VECTOR1(NAME, value) WG_VECTOR3(NAME##_PA, pa)
            WG_UNARY(R)
#undef R
#define R(NAME, name, cost, value, ua, ub, pa, pb, ...) \
    WG_VECTOR2(NAME, value) WG_VECTOR3(NAME##_PA, pa) WG_VECTOR3(NAME##_PB, pb)
            WG_BINARY(R)
#undef R
            WG_LOGIC_UNARY(WG_VECTOR1)
            WG_LOGIC_BINARY(WG_VECTOR2)
            WG_VECTOR3(SELECT, a != 0.0 ? b : y)
#define WG_PAIR(name, first, a_at, b_at, z_at, second)                      \
    case WG_M_##name: {                                                     \
        const double a0 = *A, b0 = *(B = P[c->b]), z0 = *(Z = P[(++c)->a]); \
        (void)a0, (void)b0, (void)z0;                                       \
        WG_EACH {                                                           \
            const double a = a_at, b = b_at, z = z_at, t = first;           \
            Y[i] = second;                                                  \
        }                                                                   \
    } break;
#define R(name, first, a_at, b_at, second)               \
    WG_PAIR(name, first, a_at, b_at, Z[i], second)       \
    WG_PAIR(name##_Z, first, a_at, b_at, z0, second)
            WG_PAIRS(R)
#undef R
        case WG_M_LOOP:
            wg_chunk_loop(c, P, n, &w->loops[c[1].a]);
            c++;
            break;
        case WG_M_EXACT:
            w->partial(c[1].b >> 1, c[1].y, c[1].b & 1, 0, n, w->ones, A, P[c->b], P[c[1].a], Y);
            c++;
            break;
        case WG_M_QUOTIENT: {
            const double b = *P[c->b], r = 1.0 / b;
            if (fabs(b) > WG_MIN_INVERTED && fabs(b) < 1.0 / WG_MIN_INVERTED)
                WG_EACH Y[i] = -A[i] * r;
            else
                WG_EACH Y[i] = -A[i] / b;
        } break;
        case WG_M_GET:
            if (c->b == 0) {
                const double x = *A;
                WG_EACH Y[i] = x;
            } else
                for (i = 0; i < n; i++) Y[i] = *(const double *)((const char *)A + i * c->b);
            break;
        case WG_M_PUT:
            for (i = 0; i < n; i++) *(double *)((char *)Y + i * c->b) = A[i];
            break;
        case WG_M_GET_BOOL:
            for (i = 0; i < n; i++) Y[i] = ((const char *)A)[i * c->b] != 0;
            break;
        case WG_M_PUT_BOOL:
            for (i = 0; i < n; i++) ((char *)Y)[i * c->b] = A[i] != 0.0;
            break;
        case WG_M_GATHER: wg_gather((const int32_t *)A, P[c->b], Y, n); break;
        case WG_M_GET_ROWS:
            wg_get_rows(c, (const char *)A, Y, n);
            c++;
            break;
        case WG_M_PUT_ROWS: case WG_M_GET_BOOL_ROWS: case WG_M_PUT_BOOL_ROWS:
            wg_move_rows(c, (const char *)A, (char *)Y, n);
            c++;
            break;
        case WG_M_FOLD:
            wg_fold(c, A, (char *)Y, n);
            c++;
            break;
        case WG_M_SUM_ROWS:
            for (i = 0; i < n; i += c[1].a) w->sums[c->b] += wg_chunk_sum(A + i, c[1].a);
            c++;
            break;
        case WG_M_SUM:
            w->sums[c->b] += wg_chunk_sum(A, n);
            break;
        default: break;
        }
    }
}

/* Run a range of the first axis of a vector step. */
static void wg_vector(const wg_step *s, const wg_space *w, ptrdiff_t from, ptrdiff_t to) {
    /* a chunk is a part of a row, or several short rows */
    const int ndim = s->ndim, outer = s->rows > 1 ? ndim - 2 : ndim - 1;
    const ptrdiff_t first = outer > 0 ? 0 : from, last = outer > 0 ? s->shape[outer] : to;
    const ptrdiff_t most = s->rows > 1 ? s->rows : WG_CHUNK, pitch = s->rows > 1 ? s->pitch : 1;
    const ptrdiff_t gap = s->rows > 1 ? s->pitch - s->shape[outer + 1] : 0;
    double **P = w->chunk;
    ptrdiff_t *index = w->index, i;
    int m, d;
    for (m = 0; m < s->chunks; m++) P[s->first + m] = w->scratch + m * WG_CHUNK_APART;
    for (m = 0; m < s->numbers; m++) P[s->number[2 * m]] = w->slots + s->number[2 * m + 1];
    for (m = 0; m < s->fills; m++) {
        double *chunk = P[s->fill[2 * m]];
        const double x = w->slots[s->fill[2 * m + 1]];
        for (i = 0; i < most * pitch - gap && i < (last - first) * pitch - gap; i++) chunk[i] = x;
    }
    for (m = 0; m < s->sums; m++) w->sums[m] = 0.0;
    for (d = 0; d < ndim; d++) {
        index[d] = 0;
        if (s->shape[d] == 0) return;
    }
    if (outer > 0) index[0] = from;
    for (;;) {
        for (i = first; i < last; i += most) {
            for (m = 0; m < s->walks; m++) {
                const ptrdiff_t *strides = s->strides + m * ndim;
                char *p = w->where[s->walk[2 * m + 1]] + i * strides[outer];
                for (d = 0; d < outer; d++) p += index[d] * strides[d];
                P[s->walk[2 * m]] = (double *)p;
            }
            wg_chunk(s->code, s->count, P, (last - i < most ? last - i : most) * pitch - gap, w);
        }
        for (d = outer - 1; d >= 0 && ++index[d] == (d ? s->shape[d] : to); d--) index[d] = 0;
        if (d < 0) break;
    }
}

/* ---- blocks */

typedef struct { /* a step whose blocks `shares` threads share */
    const wg_step *step;
    const wg_space *space;
    int shares;
} wg_task;

/* Run a range of the first axis; sums accumulate in the block's own partial sums. */
static void wg_some_of(const wg_step *s, const wg_space *w, ptrdiff_t from, ptrdiff_t to) {
    wg_space own = *w;
    own.sums = w->blocks + from / s->block * s->sums;
    if (s->kind == WG_VECTOR)
        wg_vector(s, &own, from, to);
    else {
        const ptrdiff_t sums = s->entries - 2 - s->sums;
        int m;
        for (m = 0; m < sums; m++) w->table[m] = s->table[m];
        for (m = 0; m < s->sums; m++) w->table[sums + m] = (int32_t)(own.sums + m - w->slots);
        w->table[s->entries - 2] = (int32_t)from;
        w->table[s->entries - 1] = (int32_t)to;
        s->run(w->slots, w->where, w->table);
    }
}

/* Run the blocks of one share; if the step has no sums, as a single range. */
static void wg_share(const void *given, int number) {
    const wg_task *const task = given;
    const wg_step *const s = task->step;
    const wg_space *const w = number ? task->space->others + number - 1 : task->space;
    const ptrdiff_t blocks = (s->length - 1) / s->block + 1;
    const ptrdiff_t end = (number + 1) * blocks / task->shares * s->block, to = end < s->length ? end : s->length;
    ptrdiff_t from = number * blocks / task->shares * s->block;
    for (; from < to; from += s->block)
        if (s->sums)
            wg_some_of(s, w, from, from + s->block < to ? from + s->block : to);
        else {
            wg_some_of(s, w, from, to);
            break;
        }
}

/* Run a step in blocks. The result does not depend on the number of helpers. */
static void wg_in_blocks(const wg_step *s, const wg_space *w) {
    const ptrdiff_t blocks = (s->length - 1) / s->block + 1;
    wg_task task = {s, w, w->helpers + 1};
    ptrdiff_t k;
    int m;
    if (w->helpers == 0 || s->work < WG_MIN_SHARED_WORK || !wg_together(wg_share, &task, w->helpers)) {
        task.shares = 1;
        wg_share(&task, 0);
    }
    for (m = 0; m < s->sums; m++) {
        double total = w->blocks[m];
        for (k = 1; k < blocks; k++) total += w->blocks[k * s->sums + m];
        w->slots[s->sum[m]] = total;
    }
}

/* Scatter-add. Additions to the same element form a dependency chain, so dense scatters use two accumulators. */
static void wg_scatter(double *to, const double *from, const wg_step *s, double *other) {
    const int32_t *const offsets = s->offsets;
    const ptrdiff_t half = s->count ? s->size / 2 : 0;
    ptrdiff_t j;
    memset(other, 0, s->count * sizeof(double));
    for (j = 0; j < half; j++) {
        to[offsets[j]] += from[j];
        other[offsets[half + j]] += from[half + j];
    }
    for (j = 2 * half; j < s->size; j++) to[offsets[j]] += from[j];
    for (j = 0; j < s->count; j++) to[j] += other[j];
}

/* Run steps from `i` until one that needs Python; return its index, or `count` at the end.
 * `failed` is set to the index of a failed guard, or -1. */
ptrdiff_t wg_run(const wg_step *steps, ptrdiff_t i, ptrdiff_t count, const wg_space *w, int32_t *failed) {
    ptrdiff_t j;
    for (; i < count; i++) {
        const wg_step *s = &steps[i];
        switch (s->kind) {
        case WG_NUMBERS:
            *failed = wg_numbers(s->code, w->slots, w->where, w->loops);
            if (*failed >= 0) return i;
            break;
        case WG_VECTOR:
            if (s->block)
                wg_in_blocks(s, w);
            else {
                wg_vector(s, w, 0, s->shape[0]);
                for (j = 0; j < s->sums; j++) w->slots[s->sum[j]] = w->sums[j];
            }
            break;
        case WG_COMPILED:
            if (s->block) {
                wg_in_blocks(s, w);
                break;
            }
            *failed = s->run(w->slots, w->where, s->table);
            if (*failed >= 0) return i;
            break;
        case WG_COPY:
            if (s->source < 0)
                memset(w->where[s->array], 0, s->size);
            else
                memcpy(w->where[s->array], w->where[s->source], s->size);
            break;
        case WG_PACK: {
            double *to = (double *)w->where[s->array];
            for (j = 0; j < s->size; j++) to[s->offsets[j]] = w->slots[s->slots[j]];
            break;
        }
        case WG_PUT: {
            double *to = (double *)w->where[s->array];
            const double *from = (const double *)w->where[s->source];
            for (j = 0; j < s->size; j++) to[s->offsets[j]] = from[j];
            break;
        }
        case WG_SCATTER:
            wg_scatter((double *)w->where[s->array], (const double *)w->where[s->source], s, w->scratch);
            break;
        case WG_PRODUCT:
            wg_multiply(s->product, w->slots, w->where, s->array < 0 ? 0 : (double *)w->where[s->array]);
            break;
        case WG_NATIVE:
            if (wg_call_native(s->native, w->slots, w->where, w->native)) return i;
            break;
        default: return i;
        }
    }
    return i;
}

/* ---- queries from lowering */

/* Return the VM's opcode for a row of kernels.h or a partial, or -1. */
int wg_machine_op(int op) {
    switch (op) {
#define R(NAME, ...)                            \
    case WG_##NAME: return WG_M_##NAME;         \
    case 256 + 2 * WG_##NAME: return WG_M_##NAME##_PA;
        WG_UNARY(R)
#undef R
#define R(NAME, ...)                                   \
    case WG_##NAME: return WG_M_##NAME;                \
    case 256 + 2 * WG_##NAME: return WG_M_##NAME##_PA; \
    case 256 + 2 * WG_##NAME + 1: return WG_M_##NAME##_PB;
        WG_BINARY(R)
#undef R
    default: return -1;
    }
}

/* Return the opcode that fuses two operations, where the result of the first is operand `side` of the second; or -1.
 * Each may have a scalar operand; if the first is commutative, its scalar must be the second operand. */
int wg_pair_op(int first, int second, int side) {
    int base, other, is_scalar;
    switch (first) {
#define R(name) case WG_M_##name: base = WG_M_##name##_ADD; break;
        R(ADD) R(ADD_VS) R(SUBTRACT) R(SUBTRACT_VS) R(SUBTRACT_SV) R(MULTIPLY) R(MULTIPLY_VS) R(STRONG) R(STRONG_VS)
#undef R
    default: return -1;
    }
    switch (second) {
#define R(name, on_left, on_right)                                                    \
    case WG_M_##name: other = side ? on_right : on_left, is_scalar = 0; break;        \
    case WG_M_##name##_VS: case WG_M_##name##_SV: other = side ? on_right : on_left, is_scalar = 1; break;
        R(ADD, 0, 0) R(SUBTRACT, 1, 2) R(MULTIPLY, 3, 3) R(STRONG, 4, 4)
#undef R
    default: return -1;
    }
    return base + 2 * other + is_scalar;
}

const wg_named_op wg_named_ops[] = {
#define R(NAME, ...) {#NAME, WG_M_##NAME},
    WG_LOGIC_UNARY(R)
    WG_LOGIC_BINARY(R)
#undef R
    {"SELECT", WG_M_SELECT}, {0, 0}};

/* Whether an operation of kernels.h has vector code here; if not, the ufunc's own loop runs. */
int wg_is_vector_code(int op) {
    switch (op) {
#if !defined(WG_VECTOR_MATH)
    case WG_EXP: case WG_SIN: case WG_COS: case WG_EXPIT:
#endif
#if !defined(WG_VECTOR_POW)
    case WG_LOG: case WG_POW: case WG_POWER:
#endif
#if !defined(WG_VECTOR_ALL)
    case WG_CBRT: case WG_EXP2: case WG_EXPM1: case WG_LOG2: case WG_LOG10: case WG_LOG1P: case WG_TAN:
    case WG_ARCSIN: case WG_ARCCOS: case WG_ARCTAN: case WG_SINH: case WG_COSH: case WG_TANH: case WG_ARCSINH:
    case WG_ARCCOSH: case WG_ARCTANH: case WG_ERF: case WG_HYPOT:
#endif
    case WG_ERFC: return 0; /* SciPy's erfc is less accurate in the tail, but programs replay its values */
    default: return 1;
    }
}

/* Whether an operation of kernels.h is correctly rounded, so that all implementations agree bit for bit. */
int wg_is_correctly_rounded(int op) {
    switch (op) {
    case WG_NEGATIVE: case WG_POSITIVE: case WG_SINGLE: case WG_ABSOLUTE: case WG_FABS: case WG_SQUARE: case WG_RECIPROCAL:
    case WG_SQRT: case WG_ADD: case WG_SUBTRACT: case WG_MULTIPLY: case WG_DIVIDE: return 1;
    default: return 0;
    }
}
