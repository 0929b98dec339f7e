"""Interpolants and splines: in their values, query points and, where smooth, knots."""
