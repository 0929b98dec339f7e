"""Jacobians by accumulating the partials of a program."""
