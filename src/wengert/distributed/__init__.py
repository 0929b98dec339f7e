"""Sums over data on many workers, and their derivatives."""

from wengert.distributed.reduction import Cost, simulate
from wengert.distributed.sums import SumOver, split_rows, sum_over

__all__ = ["Cost", "SumOver", "simulate", "split_rows", "sum_over"]
