/* Threads that help a run: see team.h. */

#include <Python.h>

#include "thread_pool.h"

typedef struct {
    PyThread_type_lock go, done;
    void (*share)(const void *task, int number);
    const void *task;
    int number;
} wg_helper;

static wg_helper wg_helpers[WG_MOST_HELPERS];
static int wg_helping = 0;                      /* of them, that there are */
static PyThread_type_lock wg_team_lock = NULL; /* held by who gives them a task */
ptrdiff_t wg_tasks = 0;                         /* that they had */

static void wg_help(void *own) {
    wg_helper *const helper = own;
    for (;;) {
        PyThread_acquire_lock(helper->go, WAIT_LOCK);
        helper->share(helper->task, helper->number);
        PyThread_release_lock(helper->done);
    }
}

/* As many helpers, or how many there can be; needs the interpreter's lock. */
int wg_call_helpers(int wanted) {
    if (wg_team_lock == NULL) wg_team_lock = PyThread_allocate_lock();
    if (wg_team_lock == NULL) return 0;
    while (wg_helping < wanted && wg_helping < WG_MOST_HELPERS) {
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

/* In the child of a fork, where they are not. */
void wg_forget_helpers(void) {
    wg_helping = 0;
    wg_team_lock = NULL;
}

/* Do all shares of a task, number 0 by the calling thread; 0 if another thread has the helpers, or a fork lost them. */
int wg_together(void (*share)(const void *task, int number), const void *task, int helpers) {
    int k;
    if (helpers > wg_helping || !PyThread_acquire_lock(wg_team_lock, NOWAIT_LOCK)) return 0;
    wg_tasks++;
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
