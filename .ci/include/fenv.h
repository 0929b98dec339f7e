/* Stands in for the C library of a target whose own is not installed: for -fsyntax-only. */
#pragma once
#define FE_INVALID 1
int feclearexcept(int);
int fetestexcept(int);
