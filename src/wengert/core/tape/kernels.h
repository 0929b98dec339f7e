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
 * d2y/da2 reads the same values as dy/da; d2y/dadb reads those of both first partials.
 * A second partial that is 0 everywhere is written 0.0 and generates no code.
 *
 * Standard C11, as MSVC accepts it; the compiler must not contract a * b + c, or results would depend on the CPU.
 */
#ifndef WENGERT_KERNELS_H
#define WENGERT_KERNELS_H

/* With these redeclarations, loops over arrays call glibc's vector functions (at most 4 ulp) instead of libm's. */
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

#include "helpers.h"
#undef WG_HELPER

/* R(opcode, name, cost, y, reads of dy/da, dy/da, d2y/da2) */
#define WG_UNARY(R)                                                                                                   \
    R(NEGATIVE, "negative", CHEAP, -a, 0, -1.0, 0.0)                                                                  \
    R(POSITIVE, "positive", CHEAP, a, 0, 1.0, 0.0)                                                                    \
    R(SINGLE, "wengert.core.tape.kernel.single", CHEAP, (double)(float)(a), 0, 1.0, 0.0)                              \
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
    R(ERF, "scipy.special.erf", VECTOR, erf(a), WG_A, WG_2_SQRTPI * wg_gauss(a), WG_2_SQRTPI * wg_gauss_slope(a))       \
    R(ERFC, "scipy.special.erfc", VECTOR, erfc(a), WG_A, -WG_2_SQRTPI * wg_gauss(a), -WG_2_SQRTPI * wg_gauss_slope(a))   \
    R(EXPIT, "scipy.special.expit", VECTOR, 1.0 / (1.0 + exp(-a)), WG_A, wg_expit_partial(a), wg_expit_second(a))

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
