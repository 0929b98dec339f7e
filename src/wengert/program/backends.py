"""Functions of higher layers that run programs, registered by `wengert/__init__.py`.

The module of such a function is imported on first use.
"""

from collections.abc import Callable

#: builds a `wengert.cuda.Kernel` from a program and the options of `Program.to_cuda`
make_kernel: Callable
#: builds a `wengert.program.swept.Stacked`, a dense Jacobian's program that runs one sweep per row or column
stacked_jacobian: Callable
