/* Helper threads for long VM instructions: see thread_pool.h. */

#include <Python.h>

#include "thread_pool.h"

typedef struct {
    PyThread_type_lock go, done;
    void (*share)(const void *task, int number);
    const void *task;
    int number;
} wg_helper;

static wg_helper wg_helpers[WG_MAX_HELPERS];
static int wg_helping = 0;                      /* number of running helpers */
static PyThread_type_lock wg_team_lock = NULL; /* held by the thread that uses the helpers */
static long wg_shared = 0;                      /* number of tasks that the helpers have shared */

static void wg_help(void *own) {
    wg_helper *const helper = own;
    for (;;) {
        PyThread_acquire_lock(helper->go, WAIT_LOCK);
        helper->share(helper->task, helper->number);
        PyThread_release_lock(helper->done);
    }
}

/* Start helpers up to `wanted` and return how many of them exist; needs the GIL. */
int wg_call_helpers(int wanted) {
    if (wg_team_lock == NULL) wg_team_lock = PyThread_allocate_lock();
    if (wg_team_lock == NULL) return 0;
    while (wg_helping < wanted && wg_helping < WG_MAX_HELPERS) {
        wg_helper *const helper = &wg_helpers[wg_helping];
        helper->go = PyThread_allocate_lock();
        helper->done = PyThread_allocate_lock();
        if (helper->go == NULL || helper->done == NULL) break;
        PyThread_acquire_lock(helper->go, WAIT_LOCK);
        PyThread_acquire_lock(helper->done, WAIT_LOCK);
        if (PyThread_start_new_thread(wg_help, helper) == PYTHREAD_INVALID_THREAD_ID) break;
        wg_helping++;
    }
    return wg_helping < wanted ? wg_helping : wanted;
}

/* Forget the helpers in the child of a fork, which does not inherit threads. */
void wg_forget_helpers(void) {
    wg_helping = 0;
    wg_team_lock = NULL;
}

/* Run all shares of a task, share 0 in the calling thread; return 0 if the helpers are busy or were lost in a fork. */
int wg_together(void (*share)(const void *task, int number), const void *task, int helpers) {
    int k;
    if (helpers > wg_helping || !PyThread_acquire_lock(wg_team_lock, NOWAIT_LOCK)) return 0;
    wg_shared++;
    for (k = 0; k < helpers; k++) {
        wg_helpers[k].share = share;
        wg_helpers[k].task = task;
        wg_helpers[k].number = k + 1;
        PyThread_release_lock(wg_helpers[k].go);
    }
    share(task, 0);
    for (k = 0; k < helpers; k++) PyThread_acquire_lock(wg_helpers[k].done, WAIT_LOCK);
    PyThread_release_lock(wg_team_lock);
    return 1;
}

/* Return how many tasks the helpers of this process have shared. */
long wg_shared_tasks(void) {
    return wg_shared;
}
