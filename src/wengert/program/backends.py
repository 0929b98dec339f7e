"""What a program can be handed to that stands above it: filled in by `wengert/__init__.py`, known to no module here.

A back end is imported when it is first asked for.
"""

from collections.abc import Callable

#: makes a `wengert.cuda.Kernel` of a program and the options of `Program.to_cuda`
make_kernel: Callable
