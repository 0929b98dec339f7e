/* Values and partials of the elementwise primitives that have a C kernel: an X-macro list with one row per opcode.
 *
 * A row only makes its primitive faster: without one, the rule's NumPy lambda is used.
 * A test checks each row against its rule, at random and at special points.
 *
 *   a, b   operands        y   value of the primitive
 * Programs replay the value given here, within 4 ulp of the primitive's; eager execution calls the primitive itself.
 * The cost refers to the partials:
 *
 *   CHEAP  a few arithmetic operations: computed in this file's loops for arrays of any length
 *   VECTOR calls libm functions that glibc also has in vector form: cheap on platforms with glibc
 *   COSTLY calls other functions: NumPy's vectorised ones are faster on long arrays, so the rule's lambda is used
 *
 * WG_A, WG_B and WG_Y say which values a partial reads; the others need not be kept until the sweep.
 *
 * Second partials differentiate the stated expressions of the first ones, at kinks too.
 * A second partial in one operand reads what the first one reads, a mixed one what both first partials read.
 * One that is 0 everywhere is written 0.0 and generates no code.
 *
 * Standard C11, as MSVC accepts it; the compiler must not contract a * b + c, or results would depend on the CPU.
 */
#ifndef WENGERT_KERNELS_H
#define WENGERT_KERNELS_H

/* By these redeclarations, loops over arrays call glibc's vector functions (at most 4 ulp) instead of libm's. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#include <features.h>
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 22)
#define WG_VECTOR_MATH
__attribute__((const, simd("notinbranch"))) double exp(double);
__attribute__((const, simd("notinbranch"))) double sin(double);
__attribute__((const, simd("notinbranch"))) double cos(double);
#endif
#endif

#include <math.h>

#define WG_LN2 0.69314718055994530942
#define WG_LN10 2.30258509299404568402
#define WG_DEGREE 0.01745329251994329577
#define WG_RADIAN 57.29577951308232087680
#define WG_2_SQRTPI 1.12837916709551257390

static inline int wg_is_midsize(double y) { return fabs(y) > 1e-290 && fabs(y) < 1e290; }

static inline double wg_maximum(double a, double b) { return a != a || a >= b ? a : b; }
static inline double wg_minimum(double a, double b) { return a != a || a <= b ? a : b; }

/* dy/da of a**b. b * y / a is accurate everywhere (b - 1 would round), but needs a nonzero a and a mid-sized y. */
static inline double wg_pow_a(double a, double b, double y) {
    if (b == 0.0) return 0.0;
    if (b == 1.0) return 1.0;
    if (b == 2.0) return 2.0 * a;
    if (a != 0.0 && wg_is_midsize(y)) return b * (y / a);
    return b * pow(a, b - 1.0);
}

/* dy/db of a**b: 0 for 0**b with b > 0, where 0 * log 0 would be NaN. */
static inline double wg_pow_b(double a, double y) { return y == 0.0 ? 0.0 : y * log(a); }

/* 1 for the larger operand, 1/2 for a tie, NaN if an operand is NaN. */
static inline double wg_larger(double a, double b) { return a > b ? 1.0 : a < b ? 0.0 : a == b ? 0.5 : NAN; }

/* The same for fmax and fmin, which ignore a NaN operand; s is 1 for fmax, -1 for fmin. */
static inline double wg_larger_number(double a, double b, double s) {
    if (a != a) return b != b ? NAN : 0.0;
    if (b != b) return 1.0;
    return wg_larger(s * a, s * b);
}

static inline double wg_tanh_partial(double a) { /* 1 - y*y would cancel: 1e6 ulp at a = 8 */
    const double t = exp(-2.0 * fabs(a));
    return 4.0 * t / ((1.0 + t) * (1.0 + t));
}

static inline double wg_expit_partial(double a) {
    const double t = exp(-fabs(a));
    return t / ((1.0 + t) * (1.0 + t));
}

/* exp(-a*a), corrected for the rounding error of a*a, which would cost a*a ulp. The error is computed from a split of a
 * into two halves (Dekker 1971), since loops with fma are not vectorised where it is a function call. */
static inline double wg_gauss(double a) {
    const double x = a * a < 800.0 ? a : 0.0, s = x * x;
    const double t = 134217729.0 * x, high = t - (t - x), low = x - high;
    const double rest = ((high * high - s) + 2.0 * high * low) + low * low;
    const double y = exp(-s) * (1.0 - rest);
    return a * a < 800.0 ? y : a != a ? a : 0.0;
}

/* Second partials: factors are ordered so that no intermediate overflows unless the result does. */

static inline double wg_pow_aa(double a, double b, double y) {
    if (b == 0.0 || b == 1.0) return 0.0;
    if (b == 2.0) return 2.0;
    if (a != 0.0 && wg_is_midsize(y)) return b * (y / a) * ((b - 1.0) / a);
    return b * (b - 1.0) * pow(a, b - 2.0);
}

/* a**(b - 1) (1 + b log(a)); 0 for 0**b with b > 1, where 0 * log 0 would be NaN */
static inline double wg_pow_ab(double a, double b, double y) {
    const double slope = a != 0.0 && wg_is_midsize(y) ? y / a : pow(a, b - 1.0);
    return slope == 0.0 || b == 0.0 ? slope : slope * (1.0 + b * log(a));
}

static inline double wg_pow_bb(double a, double y) {
    const double l = log(a);
    return y == 0.0 ? 0.0 : y * l * l;
}

static inline double wg_hypot_second(double p, double q, double y) {
    return y == 0.0 ? 0.0 : (p / y) * (q / y / y);
}

static inline double wg_arcsin_second(double a) {
    const double q = 1.0 / ((1.0 - a) * (1.0 + a));
    return a * q * sqrt(q);
}

static inline double wg_arcsinh_second(double a) {
    const double h = hypot(1.0, a);
    return isinf(a) ? 0.0 : -(a / h) / h / h;
}

static inline double wg_arccosh_second(double a) {
    const double p = 1.0 / (sqrt(a - 1.0) * sqrt(a + 1.0));
    return isinf(a) ? 0.0 : -(a * p) * p * p;
}

static inline double wg_arctanh_second(double a) {
    const double p = 1.0 / ((1.0 - a) * (1.0 + a));
    return 2.0 * a * p * p;
}

/* -t (1 - t) / (1 + t)**3 with t = exp(-|a|), times the sign of a; 1 - t by its series for small |a|, as it cancels */
static inline double wg_expit_second(double a) {
    const double x = fabs(a), q = x * x, t = exp(-x);
    /* even and odd powers of (1 - t) / x in parallel, unrolled because a loop would not be vectorised */
    double odd = 1.0 / 87178291200, even = 1.0 / 1307674368000, d;
    odd = 1.0 / 479001600 + q * odd, even = 1.0 / 6227020800 + q * even;
    odd = 1.0 / 3628800 + q * odd, even = 1.0 / 39916800 + q * even;
    odd = 1.0 / 40320 + q * odd, even = 1.0 / 362880 + q * even;
    odd = 1.0 / 720 + q * odd, even = 1.0 / 5040 + q * even;
    odd = 1.0 / 24 + q * odd, even = 1.0 / 120 + q * even;
    odd = 0.5 + q * odd, even = 1.0 / 6 + q * even;
    d = 1.0 + q * even - x * odd;
    d = x < 0.5 ? x * d : 1.0 - t;
    return copysign(t * d / ((1.0 + t) * (1.0 + t) * (1.0 + t)), -a);
}

static inline double wg_sign(double a) { return a > 0.0 ? 1.0 : a < 0.0 ? -1.0 : a == 0.0 ? 0.0 : a; }

#define WG_NOT_READ NAN /* second partials of SciPy's functions: the tape has no entries of them */

/* R(opcode, name, cost, y, reads of dy/da, dy/da, d2y/da2) */
#define WG_UNARY(R)                                                                                                   \
    R(NEGATIVE, "negative", CHEAP, -a, 0, -1.0, 0.0)                                                                  \
    R(POSITIVE, "positive", CHEAP, a, 0, 1.0, 0.0)                                                                    \
    R(ABSOLUTE, "absolute", CHEAP, fabs(a), WG_A, wg_sign(a), 0.0)                                                    \
    R(FABS, "fabs", CHEAP, fabs(a), WG_A, wg_sign(a), 0.0)                                                            \
    R(SQUARE, "square", CHEAP, a * a, WG_A, 2.0 * a, 2.0)                                                             \
    R(RECIPROCAL, "reciprocal", CHEAP, 1.0 / a, WG_Y, -y * y, 2.0 * y * y * y)                                        \
    R(SQRT, "sqrt", CHEAP, sqrt(a), WG_Y, 0.5 / (y + 0.0), -0.25 / (y + 0.0) / y / y)                                 \
    R(CBRT, "cbrt", CHEAP, cbrt(a), WG_Y, 1.0 / (3.0 * y * y), y != 0.0 ? -2.0 / (3.0 * y * y) / (3.0 * y * y) / y : 0.0)  \
    R(EXP, "exp", CHEAP, exp(a), WG_Y, y, y)                                                                          \
    R(EXP2, "exp2", CHEAP, exp2(a), WG_Y, y * WG_LN2, y * WG_LN2 * WG_LN2)                                            \
    R(EXPM1, "expm1", VECTOR, expm1(a), WG_A, exp(a), exp(a))                                                         \
    R(LOG, "log", CHEAP, log(a), WG_A, 1.0 / a, -1.0 / a / a)                                                         \
    R(LOG2, "log2", CHEAP, log2(a), WG_A, 1.0 / WG_LN2 / a, -1.0 / WG_LN2 / a / a)                                    \
    R(LOG10, "log10", CHEAP, log10(a), WG_A, 1.0 / WG_LN10 / a, -1.0 / WG_LN10 / a / a)                               \
    R(LOG1P, "log1p", CHEAP, log1p(a), WG_A, 1.0 / (1.0 + a), -1.0 / (1.0 + a) / (1.0 + a))                           \
    R(SIN, "sin", VECTOR, sin(a), WG_A, cos(a), -sin(a))                                                              \
    R(COS, "cos", VECTOR, cos(a), WG_A, -sin(a), -cos(a))                                                             \
    R(TAN, "tan", CHEAP, tan(a), WG_Y, 1.0 + y * y, 2.0 * y * (1.0 + y * y))                                          \
    R(ARCSIN, "arcsin", CHEAP, asin(a), WG_A, 1.0 / sqrt((1.0 - a) * (1.0 + a)), wg_arcsin_second(a))                 \
    R(ARCCOS, "arccos", CHEAP, acos(a), WG_A, -1.0 / sqrt((1.0 - a) * (1.0 + a)), -wg_arcsin_second(a))               \
    R(ARCTAN, "arctan", CHEAP, atan(a), WG_A, 1.0 / (1.0 + a * a), -2.0 / (1.0 + a * a) / (a + 1.0 / a))              \
    R(SINH, "sinh", COSTLY, sinh(a), WG_A, cosh(a), sinh(a))                                                          \
    R(COSH, "cosh", COSTLY, cosh(a), WG_A, sinh(a), cosh(a))                                                          \
    R(TANH, "tanh", VECTOR, tanh(a), WG_A, wg_tanh_partial(a), 8.0 * wg_expit_second(2.0 * a))                        \
    R(ARCSINH, "arcsinh", COSTLY, asinh(a), WG_A, 1.0 / hypot(1.0, a), wg_arcsinh_second(a))                          \
    R(ARCCOSH, "arccosh", CHEAP, acosh(a), WG_A, 1.0 / (sqrt(a - 1.0) * sqrt(a + 1.0)), wg_arccosh_second(a))         \
    R(ARCTANH, "arctanh", CHEAP, atanh(a), WG_A, 1.0 / ((1.0 - a) * (1.0 + a)), wg_arctanh_second(a))                 \
    R(DEG2RAD, "deg2rad", CHEAP, a * WG_DEGREE, 0, WG_DEGREE, 0.0)                                                    \
    R(RADIANS, "radians", CHEAP, a * WG_DEGREE, 0, WG_DEGREE, 0.0)                                                    \
    R(RAD2DEG, "rad2deg", CHEAP, a * WG_RADIAN, 0, WG_RADIAN, 0.0)                                                    \
    R(DEGREES, "degrees", CHEAP, a * WG_RADIAN, 0, WG_RADIAN, 0.0)                                                    \
    R(ERF, "scipy.special.erf", VECTOR, erf(a), WG_A, WG_2_SQRTPI * wg_gauss(a), WG_NOT_READ)                         \
    R(ERFC, "scipy.special.erfc", VECTOR, erfc(a), WG_A, -WG_2_SQRTPI * wg_gauss(a), WG_NOT_READ)                      \
    R(EXPIT, "scipy.special.expit", VECTOR, 1.0 / (1.0 + exp(-a)), WG_A, wg_expit_partial(a), WG_NOT_READ)

/* R(opcode, name, cost, y, reads of dy/da, reads of dy/db, dy/da, dy/db, d2y/da2, d2y/dadb, d2y/db2).
 * POW is the operator ** on scalars, POWER the function numpy.power. */
#define WG_BINARY(R)                                                                                                  \
    R(ADD, "add", CHEAP, a + b, 0, 0, 1.0, 1.0, 0.0, 0.0, 0.0)                                                        \
    R(SUBTRACT, "subtract", CHEAP, a - b, 0, 0, 1.0, -1.0, 0.0, 0.0, 0.0)                                             \
    R(MULTIPLY, "multiply", CHEAP, a * b, WG_B, WG_A, b, a, 0.0, 1.0, 0.0)                                            \
    R(DIVIDE, "divide", CHEAP, a / b, WG_B, WG_B | WG_Y, 1.0 / b, -y / b, 0.0, -1.0 / b / b, 2.0 * (y / b) / b)       \
    R(POW, "", COSTLY, pow(a, b), WG_A | WG_B | WG_Y, WG_A | WG_B | WG_Y,                                                \
       wg_pow_a(a, b, y), wg_pow_b(a, y), wg_pow_aa(a, b, y), wg_pow_ab(a, b, y), wg_pow_bb(a, y))                    \
    R(POWER, "power", COSTLY, pow(a, b), WG_A | WG_B | WG_Y, WG_A | WG_B | WG_Y,                                         \
       wg_pow_a(a, b, y), wg_pow_b(a, y), wg_pow_aa(a, b, y), wg_pow_ab(a, b, y), wg_pow_bb(a, y))                    \
    R(HYPOT, "hypot", CHEAP, hypot(a, b), WG_A | WG_B | WG_Y, WG_A | WG_B | WG_Y,                                     \
       y == 0.0 ? 0.0 : a / y, y == 0.0 ? 0.0 : b / y,                                                                \
       wg_hypot_second(b, b, y), -wg_hypot_second(a, b, y), wg_hypot_second(a, a, y))                                 \
    R(MAXIMUM, "maximum", CHEAP, wg_maximum(a, b), WG_A | WG_B, WG_A | WG_B,                                          \
       wg_larger(a, b), wg_larger(b, a), 0.0, 0.0, 0.0)                                                               \
    R(MINIMUM, "minimum", CHEAP, wg_minimum(a, b), WG_A | WG_B, WG_A | WG_B,                                          \
       wg_larger(b, a), wg_larger(a, b), 0.0, 0.0, 0.0)                                                               \
    R(FMAX, "fmax", CHEAP, b != b || a >= b ? a : b, WG_A | WG_B, WG_A | WG_B,                                        \
       wg_larger_number(a, b, 1.0), wg_larger_number(b, a, 1.0), 0.0, 0.0, 0.0)                                       \
    R(FMIN, "fmin", CHEAP, b != b || a <= b ? a : b, WG_A | WG_B, WG_A | WG_B,                                        \
       wg_larger_number(a, b, -1.0), wg_larger_number(b, a, -1.0), 0.0, 0.0, 0.0)

enum { WG_A = 1, WG_B = 2, WG_Y = 4 }; /* values that a partial reads */

/* Opcodes. A binary primitive has three: slot and slot, slot and constant, constant and slot. */
enum {
    WG_INPUT,  /* an independent variable, or a value that carries no derivative */
    WG_LOAD,   /* v = buffer[a][b] */
    WG_STORE,  /* buffer[b] = slot a (or a constant if a < 0); v keeps the overwritten value: see wg_swap */
    WG_TARGET, /* second half of a STORE: a is the buffer */
    WG_NODE,   /* an array entry: a is its index in the tape's nodes */
#define R(NAME, ...) WG_##NAME,
    WG_UNARY(R)
#undef R
#define R(NAME, ...) WG_##NAME, WG_##NAME##_VC, WG_##NAME##_CV,
    WG_BINARY(R)
#undef R
    WG_OPCODES
};

#endif
