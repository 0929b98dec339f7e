/* The partials of the elementwise primitives that have a C kernel: one X-macro row an opcode.
 *
 * A row makes its primitive fast and is never needed for it to be right: without one the rule's NumPy lambda runs.
 * A test checks each row against its rule, at random and at special points.
 *
 *   a, b   operands        y   value of the primitive
 *   CHEAP  a few arithmetic operations: worth computing in a loop over an array of any length
 *   COSTLY calls libm: for long arrays NumPy's vectorised functions win, and the rule's lambda is taken
 *
 * Standard C11 that MSVC takes too; the compiler must not contract a * b + c, or results would depend on the CPU.
 */
#ifndef WENGERT_KERNELS_H
#define WENGERT_KERNELS_H

#include <math.h>

#define WG_LN2 0.69314718055994530942
#define WG_LN10 2.30258509299404568402
#define WG_DEGREE 0.01745329251994329577
#define WG_2_SQRTPI 1.12837916709551257390

/* dy/da of a**b. b * y / a is accurate over the whole range (b - 1 would round), but needs a and y normal. */
static inline double wg_pow_a(double a, double b, double y) {
    if (b == 0.0) return 0.0;
    if (b == 1.0) return 1.0;
    if (b == 2.0) return 2.0 * a;
    if (a != 0.0 && fabs(y) > 1e-290 && fabs(y) < 1e290) return b * (y / a);
    return b * pow(a, b - 1.0);
}

/* dy/db of a**b: 0 for 0**b with b > 0, where 0 * log 0 would be NaN. */
static inline double wg_pow_b(double a, double y) { return y == 0.0 ? 0.0 : y * log(a); }

/* 1 for the larger operand, 1/2 each for a tie; NaN where an operand is. */
static inline double wg_larger(double a, double b) { return a > b ? 1.0 : a < b ? 0.0 : a == b ? 0.5 : NAN; }

/* The same for fmax and fmin, which take the operand that is not NaN; s is 1 or -1. */
static inline double wg_larger_number(double a, double b, double s) {
    if (a != a) return b != b ? NAN : 0.0;
    if (b != b) return 1.0;
    return wg_larger(s * a, s * b);
}

static inline double wg_tanh_partial(double a) { /* 1 - y*y cancels: 1e6 ulp at a = 8 */
    const double t = exp(-2.0 * fabs(a));
    return 4.0 * t / ((1.0 + t) * (1.0 + t));
}

static inline double wg_expit_partial(double a) {
    const double t = exp(-fabs(a));
    return t / ((1.0 + t) * (1.0 + t));
}

/* exp(-a*a): the rounding error of a*a is put back, or it would cost a*a ulp. */
static inline double wg_gauss(double a) {
    const double s = a * a;
    return s < 800.0 ? exp(-s) * (1.0 - fma(a, a, -s)) : a != a ? a : 0.0;
}

static inline double wg_sign(double a) { return a > 0.0 ? 1.0 : a < 0.0 ? -1.0 : a == 0.0 ? 0.0 : a; }

/* R(opcode, name, cost, dy/da) */
#define WG_UNARY(R)                                                            \
    R(NEGATIVE, "negative", CHEAP, -1.0)                                       \
    R(POSITIVE, "positive", CHEAP, 1.0)                                        \
    R(ABSOLUTE, "absolute", CHEAP, wg_sign(a))                                 \
    R(FABS, "fabs", CHEAP, wg_sign(a))                                         \
    R(SQUARE, "square", CHEAP, 2.0 * a)                                        \
    R(RECIPROCAL, "reciprocal", CHEAP, -y * y)                                 \
    R(SQRT, "sqrt", CHEAP, 0.5 / y)                                            \
    R(CBRT, "cbrt", CHEAP, 1.0 / (3.0 * y * y))                                \
    R(EXP, "exp", CHEAP, y)                                                    \
    R(EXP2, "exp2", CHEAP, y * WG_LN2)                                         \
    R(EXPM1, "expm1", COSTLY, exp(a))                                          \
    R(LOG, "log", CHEAP, 1.0 / a)                                              \
    R(LOG2, "log2", CHEAP, 1.0 / (a * WG_LN2))                                 \
    R(LOG10, "log10", CHEAP, 1.0 / (a * WG_LN10))                              \
    R(LOG1P, "log1p", CHEAP, 1.0 / (1.0 + a))                                  \
    R(SIN, "sin", COSTLY, cos(a))                                              \
    R(COS, "cos", COSTLY, -sin(a))                                             \
    R(TAN, "tan", CHEAP, 1.0 + y * y)                                          \
    R(ARCSIN, "arcsin", CHEAP, 1.0 / sqrt((1.0 - a) * (1.0 + a)))              \
    R(ARCCOS, "arccos", CHEAP, -1.0 / sqrt((1.0 - a) * (1.0 + a)))             \
    R(ARCTAN, "arctan", CHEAP, 1.0 / (1.0 + a * a))                            \
    R(SINH, "sinh", COSTLY, cosh(a))                                           \
    R(COSH, "cosh", COSTLY, sinh(a))                                           \
    R(TANH, "tanh", COSTLY, wg_tanh_partial(a))                                \
    R(ARCSINH, "arcsinh", COSTLY, 1.0 / hypot(1.0, a))                         \
    R(ARCCOSH, "arccosh", CHEAP, 1.0 / (sqrt(a - 1.0) * sqrt(a + 1.0)))        \
    R(ARCTANH, "arctanh", CHEAP, 1.0 / ((1.0 - a) * (1.0 + a)))                \
    R(DEG2RAD, "deg2rad", CHEAP, WG_DEGREE)                                    \
    R(RADIANS, "radians", CHEAP, WG_DEGREE)                                    \
    R(RAD2DEG, "rad2deg", CHEAP, 180.0 / 3.14159265358979323846)               \
    R(DEGREES, "degrees", CHEAP, 180.0 / 3.14159265358979323846)               \
    R(ERF, "scipy.special.erf", COSTLY, WG_2_SQRTPI * wg_gauss(a))             \
    R(ERFC, "scipy.special.erfc", COSTLY, -WG_2_SQRTPI * wg_gauss(a))          \
    R(EXPIT, "scipy.special.expit", COSTLY, wg_expit_partial(a))

/* R(opcode, name, cost, dy/da, dy/db). POW is the operator ** on scalars, POWER the function numpy.power. */
#define WG_BINARY(R)                                                           \
    R(ADD, "add", CHEAP, 1.0, 1.0)                                             \
    R(SUBTRACT, "subtract", CHEAP, 1.0, -1.0)                                  \
    R(MULTIPLY, "multiply", CHEAP, b, a)                                       \
    R(DIVIDE, "divide", CHEAP, 1.0 / b, -y / b)                                \
    R(POW, "", COSTLY, wg_pow_a(a, b, y), wg_pow_b(a, y))                      \
    R(POWER, "power", COSTLY, wg_pow_a(a, b, y), wg_pow_b(a, y))               \
    R(HYPOT, "hypot", CHEAP, y == 0.0 ? 0.0 : a / y, y == 0.0 ? 0.0 : b / y)   \
    R(MAXIMUM, "maximum", CHEAP, wg_larger(a, b), wg_larger(b, a))             \
    R(MINIMUM, "minimum", CHEAP, wg_larger(b, a), wg_larger(a, b))             \
    R(FMAX, "fmax", CHEAP, wg_larger_number(a, b, 1.0), wg_larger_number(b, a, 1.0))   \
    R(FMIN, "fmin", CHEAP, wg_larger_number(a, b, -1.0), wg_larger_number(b, a, -1.0))

/* Opcodes. A binary primitive has three: two slots, slot and constant, constant and slot. */
enum {
    WG_INPUT,  /* an independent variable, or a value whose derivative is not followed */
    WG_LOAD,   /* v = buffer[a][b] */
    WG_STORE,  /* buffer[b] = slot a (or a constant where a < 0); v keeps the other value: see wg_swap */
    WG_TARGET, /* follows a STORE: a is its buffer */
    WG_NODE,   /* an array entry: a is its index among the tape's nodes */
#define R(NAME, ...) WG_##NAME,
    WG_UNARY(R)
#undef R
#define R(NAME, ...) WG_##NAME, WG_##NAME##_VC, WG_##NAME##_CV,
    WG_BINARY(R)
#undef R
    WG_OPCODES
};

#endif
