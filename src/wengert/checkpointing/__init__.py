"""Checkpointing of long loops: few states are stored, and steps are recomputed in the reverse sweep."""

from wengert.checkpointing.run import measure
from wengert.checkpointing.schedule import Schedule, binomial, blocks, plan, simulate, two_level, uniform

__all__ = ["Schedule", "binomial", "blocks", "measure", "plan", "simulate", "two_level", "uniform"]


def __dir__():
    return sorted(__all__)
