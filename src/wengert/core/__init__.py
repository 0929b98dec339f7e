"""Traced values: their tape, the recording of NumPy calls on them, and derivatives of recorded calls."""

from wengert.core import hooks as hooks  # imported for its side effect: it sets the calls that point upwards
