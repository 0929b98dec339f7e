"""Sums over data on many workers, and their derivatives."""

from wengert.distributed.chunks import split_rows
from wengert.distributed.operators import WorkerPlan
from wengert.distributed.reduction import Cost, simulate
from wengert.distributed.sums import SumOver, sum_over

__all__ = ["Cost", "SumOver", "WorkerPlan", "simulate", "split_rows", "sum_over"]


def __dir__():
    return sorted(__all__)
