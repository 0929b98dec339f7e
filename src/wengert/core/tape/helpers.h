/* C functions called by the rows of kernels.h, which includes this file.
 *
 * sweep.c includes it again for the text of each function, which code generators translate (codegen/kernels.py). They
 * understand only definitions of variables, assignments, `if (...) return ...;` and `return ...;`.
 */

#include <math.h>

#ifndef WG_HELPER
#define WG_HELPER(...) static inline __VA_ARGS__
#endif

WG_HELPER(int wg_is_midsize(double y) { return fabs(y) > 1e-290 && fabs(y) < 1e290; })

WG_HELPER(double wg_maximum(double a, double b) { return a != a || a >= b ? a : b; })
WG_HELPER(double wg_minimum(double a, double b) { return a != a || a <= b ? a : b; })

/* dy/da of a**b. b * y / a is accurate everywhere (b - 1 would round), but needs a nonzero a and a mid-sized y. */
WG_HELPER(double wg_pow_a(double a, double b, double y) {
    if (b == 0.0) return 0.0;
    if (b == 1.0) return 1.0;
    if (b == 2.0) return 2.0 * a;
    if (a != 0.0 && wg_is_midsize(y)) return b * (y / a);
    return b * pow(a, b - 1.0);
})

/* dy/db of a**b: 0 for 0**b with b > 0, where 0 * log 0 would be NaN. */
WG_HELPER(double wg_pow_b(double a, double y) { return y == 0.0 ? 0.0 : y * log(a); })

/* 1 for the larger operand, 1/2 for a tie, NaN if an operand is NaN. */
WG_HELPER(double wg_larger(double a, double b) { return a > b ? 1.0 : a < b ? 0.0 : a == b ? 0.5 : NAN; })

/* Partial of fmax (s = 1) or fmin (s = -1) with respect to a; these functions ignore a NaN operand. */
WG_HELPER(double wg_larger_number(double a, double b, double s) {
    if (a != a) return b != b ? NAN : 0.0;
    if (b != b) return 1.0;
    return wg_larger(s * a, s * b);
})

WG_HELPER(double wg_tanh_partial(double a) { /* 1 - y*y would cancel: 1e6 ulp at a = 8 */
    const double t = exp(-2.0 * fabs(a));
    return 4.0 * t / ((1.0 + t) * (1.0 + t));
})

WG_HELPER(double wg_expit_partial(double a) {
    const double t = exp(-fabs(a));
    return t / ((1.0 + t) * (1.0 + t));
})

/* exp(-a*a), corrected for the rounding error of a*a, which would cost a*a ulp. The error is computed by splitting a
 * into two halves (Dekker 1971): where fma is a function call, loops with it are not vectorised. */
WG_HELPER(double wg_gauss(double a) {
    const double x = a * a < 800.0 ? a : 0.0, s = x * x;
    const double t = 134217729.0 * x, high = t - (t - x), low = x - high;
    const double rest = ((high * high - s) + 2.0 * high * low) + low * low;
    const double y = exp(-s) * (1.0 - rest);
    return a * a < 800.0 ? y : a != a ? a : 0.0;
})

/* Second partials: factors are ordered so that no intermediate overflows unless the result does. */

WG_HELPER(double wg_gauss_slope(double a) { return a * a < 800.0 ? -2.0 * a * wg_gauss(a) : a != a ? a : 0.0; })

WG_HELPER(double wg_pow_aa(double a, double b, double y) {
    if (b == 0.0 || b == 1.0) return 0.0;
    if (b == 2.0) return 2.0;
    if (a != 0.0 && wg_is_midsize(y)) return b * (y / a) * ((b - 1.0) / a);
    return b * (b - 1.0) * pow(a, b - 2.0);
})

/* a**(b - 1) (1 + b log(a)); 0 for 0**b with b > 1, where 0 * log 0 would be NaN */
WG_HELPER(double wg_pow_ab(double a, double b, double y) {
    const double slope = a != 0.0 && wg_is_midsize(y) ? y / a : pow(a, b - 1.0);
    return slope == 0.0 || b == 0.0 ? slope : slope * (1.0 + b * log(a));
})

WG_HELPER(double wg_pow_bb(double a, double y) {
    const double l = log(a);
    return y == 0.0 ? 0.0 : y * l * l;
})

WG_HELPER(double wg_hypot_second(double p, double q, double y) {
    return y == 0.0 ? 0.0 : (p / y) * (q / y / y);
})

WG_HELPER(double wg_arcsin_second(double a) {
    const double q = 1.0 / ((1.0 - a) * (1.0 + a));
    return a * q * sqrt(q);
})

WG_HELPER(double wg_arcsinh_second(double a) {
    const double h = hypot(1.0, a);
    return isinf(a) ? 0.0 : -(a / h) / h / h;
})

WG_HELPER(double wg_arccosh_second(double a) {
    const double p = 1.0 / (sqrt(a - 1.0) * sqrt(a + 1.0));
    return isinf(a) ? 0.0 : -(a * p) * p * p;
})

WG_HELPER(double wg_arctanh_second(double a) {
    const double p = 1.0 / ((1.0 - a) * (1.0 + a));
    return 2.0 * a * p * p;
})

/* -t (1 - t) / (1 + t)**3 with t = exp(-|a|), times the sign of a; for small |a|, where 1 - t cancels, by its series */
WG_HELPER(double wg_expit_second(double a) {
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
})

WG_HELPER(double wg_sign(double a) { return a > 0.0 ? 1.0 : a < 0.0 ? -1.0 : a == 0.0 ? 0.0 : a; })
