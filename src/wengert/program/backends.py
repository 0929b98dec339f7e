"""Back ends of higher layers that run programs, registered by `wengert/__init__.py`.

A back end is imported on first use.
"""

from collections.abc import Callable

#: builds a `wengert.cuda.Kernel` from a program and the options of `Program.to_cuda`
make_kernel: Callable
