"""Reverse sweeps through many steps in little memory: states kept, and steps run again."""

from wengert.checkpointing.run import measure
from wengert.checkpointing.schedule import Schedule, binomial, blocks, plan, simulate, two_level, uniform

__all__ = ["Schedule", "binomial", "blocks", "measure", "plan", "simulate", "two_level", "uniform"]
