"""Decompositions of tensors."""

import numpy as np
import tensorly as tl
from tensorly.cp_tensor import cp_norm, cp_to_tensor
from tensorly.tenalg import khatri_rao, mode_dot
from tensorly.tt_tensor import tt_to_tensor
from tensorly.tucker_tensor import tucker_to_tensor

from benchmarks.packages.cases import Cases

PACKAGE = "tensorly"
cases = Cases()
RANDOM = np.random.default_rng(0)
A, B, C = RANDOM.random((3, 2)), RANDOM.random((4, 2)), RANDOM.random((2, 2))
CORE, CUBE = RANDOM.random((2, 2, 2)), RANDOM.random((3, 4, 2))


@cases(A)
def canonical(a):
    return cp_to_tensor((None, [a, B, C]))


@cases(A)
def norm_of_canonical(a):
    return cp_norm((np.ones(2), [a, B, C]))


@cases(CORE)
def tucker(core):
    return tucker_to_tensor((core, [A, B, C]))


@cases(A)
def product_of_khatri_and_rao(a):
    return khatri_rao([a, B])


@cases(CUBE)
def unfolded_product(x):
    return tl.unfold(mode_dot(x, A.T, 0), 1)


@cases(A.reshape(1, 3, 2))
def tensor_train(first):
    return tt_to_tensor([first, B.T.reshape(2, 4, 1)])


@cases(A)
def error_of_fit(a):
    return tl.norm(CUBE - cp_to_tensor((None, [a, B, C]))) ** 2
