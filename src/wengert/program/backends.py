"""Back ends in higher layers that run programs, registered by `wengert/__init__.py`.

A back end is imported when it is first asked for.
"""

from collections.abc import Callable

#: makes a `wengert.cuda.Kernel` of a program and the options of `Program.to_cuda`
make_kernel: Callable
