"""Traced values: their tape, the recording of NumPy calls on them, and derivatives of what was recorded."""

from wengert.core import hooks as hooks  # sets the calls that point upwards
