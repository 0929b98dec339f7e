/* Stands in for the C library of a target whose own is not installed: for -fsyntax-only.
   The part of C11's <math.h> on doubles, and no common extension: M_PI and the like do not exist in
   strict C11 nor, unasked, in Windows' headers. */
#pragma once
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VAL __builtin_huge_val()
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)
#define DECLARE1(f) double f(double);
#define DECLARE2(f) double f(double, double);
DECLARE1(acos) DECLARE1(asin) DECLARE1(atan) DECLARE1(cos) DECLARE1(sin) DECLARE1(tan)
DECLARE1(acosh) DECLARE1(asinh) DECLARE1(atanh) DECLARE1(cosh) DECLARE1(sinh) DECLARE1(tanh)
DECLARE1(exp) DECLARE1(exp2) DECLARE1(expm1) DECLARE1(log) DECLARE1(log10) DECLARE1(log1p)
DECLARE1(log2) DECLARE1(logb) DECLARE1(cbrt) DECLARE1(fabs) DECLARE1(sqrt) DECLARE1(erf)
DECLARE1(erfc) DECLARE1(lgamma) DECLARE1(tgamma) DECLARE1(ceil) DECLARE1(floor)
DECLARE1(nearbyint) DECLARE1(rint) DECLARE1(round) DECLARE1(trunc)
DECLARE2(atan2) DECLARE2(hypot) DECLARE2(pow) DECLARE2(fmod) DECLARE2(remainder)
DECLARE2(copysign) DECLARE2(nextafter) DECLARE2(fdim) DECLARE2(fmax) DECLARE2(fmin)
double fma(double, double, double);
double frexp(double, int *);
double ldexp(double, int);
double modf(double, double *);
#undef DECLARE1
#undef DECLARE2
