/* Stands in for the C library of a target whose own is not installed: for -fsyntax-only. */
#pragma once
#include <stddef.h>
void *malloc(size_t);
void *calloc(size_t, size_t);
void *realloc(void *, size_t);
void free(void *);
void abort(void);
int abs(int);
