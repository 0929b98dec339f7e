"""The matrices that methods of SciPy's sparse matrices return when their entries are traced."""

from __future__ import annotations

import numpy as np

from wengert.core.frames import at
from wengert.errors import UnsupportedFunctionError


class TracedMatrix:
    """A ``numpy.matrix`` of traced elements; code must convert it to an array before computing with it.

    Only conversions, transposes and flattening are supported: its operators differ from those of arrays.
    """

    __slots__ = ("A",)
    __array_priority__ = 1e6

    def __init__(self, array):
        self.A = array

    @property
    def A1(self):
        return np.reshape(self.A, -1)

    @property
    def T(self):
        return TracedMatrix(np.transpose(self.A))

    @property
    def shape(self):
        return np.shape(self.A)

    @property
    def dtype(self):
        return self.A.dtype

    ndim = 2

    def flatten(self, order="C"):
        return TracedMatrix(np.reshape(self.A, (1, -1), order=order))

    ravel = flatten

    def __array__(self, dtype=None, copy=None):
        return self.A  # traced, which `wengert.numpy.asarray` accepts

    def __array_function__(self, fun, types, args, kwargs):
        if fun in (np.ravel, np.shape, np.ndim, np.size):
            return fun(*[x.A if type(x) is TracedMatrix else x for x in args], **kwargs)
        return self.__getattr__(f"numpy.{fun.__name__}")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedFunctionError(
            f"'{name}' of a numpy.matrix with traced elements, which sparse matrices return, is not supported{at()}: "
            "convert it with numpy.asarray, or use sparse arrays such as scipy.sparse.csr_array"
        )

    def _refuse(self, *args):
        return self.__getattr__("an operation")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = _refuse
    __truediv__ = __rtruediv__ = __pow__ = __neg__ = __iter__ = __getitem__ = __len__ = _refuse
    __array_ufunc__ = None


# the names that messages state
TracedMatrix.__module__, TracedMatrix.__qualname__, TracedMatrix.__name__ = "numpy", "matrix", "matrix"
