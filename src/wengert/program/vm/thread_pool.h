/* Threads that help a run: each does one share of a task that one thread has, while that does its own.
 *
 * They are started when they are first asked for, wait for locks in between, and never touch Python.
 */
#ifndef WENGERT_TEAM_H
#define WENGERT_TEAM_H

#include <stddef.h>

enum { WG_MOST_HELPERS = 255 };

extern ptrdiff_t wg_tasks; /* that helpers had */

/* As many helpers, or how many there can be; needs the interpreter's lock. */
int wg_call_helpers(int wanted);
/* In the child of a fork, where they are not. */
void wg_forget_helpers(void);
/* Do all shares of a task, number 0 by the calling thread; 0 if another thread has the helpers, or a fork lost them. */
int wg_together(void (*share)(const void *task, int number), const void *task, int helpers);

#endif
