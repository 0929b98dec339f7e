# Number of helper threads, included by machine.pyx; see thread_pool.h.

cdef int helpers = 0                # additional threads that share blocks of long VM instructions


def forget_helpers():
    """Forget the helper threads in the child of a fork: it does not inherit them, and runs without helpers."""
    wg_forget_helpers()


def use_threads(count):
    """Let VMs that are built from now on share long VM instructions among `count` threads."""
    global helpers
    helpers = count - 1


def shared_tasks():
    """Return how many long VM instructions helper threads have shared in this process."""
    return wg_shared_tasks()


cdef int threads_of_environment() except -1:
    text = os.environ.get("WENGERT_NUM_THREADS", "1")
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= WG_MAX_HELPERS:
        raise ValueError(f"WENGERT_NUM_THREADS={text}: set it to the number of threads that may share an "
                         f"instruction of a program, from 1 to {WG_MAX_HELPERS}")
    return int(text)


use_threads(threads_of_environment())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_helpers)
