/* Helper threads for long VM instructions: each runs one share of a task while the calling thread runs its own.
 *
 * They are started on first use, wait on locks between tasks, and never touch Python objects.
 */
#ifndef WENGERT_TEAM_H
#define WENGERT_TEAM_H

#include <stddef.h>

enum { WG_MAX_HELPERS = 255 };

/* Start helpers up to `wanted` and return how many of them exist; needs the GIL. */
int wg_call_helpers(int wanted);
/* Forget the helpers in the child of a fork, which does not inherit threads. */
void wg_forget_helpers(void);
/* Run all shares of a task, share 0 in the calling thread; return 0 if the helpers are busy or were lost in a fork. */
int wg_together(void (*share)(const void *task, int number), const void *task, int helpers);
/* Return how many tasks the helpers of this process have shared. */
long wg_shared_tasks(void);

#endif
