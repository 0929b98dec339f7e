"""Optimisation passes: each takes a program in the IR and returns an equivalent one."""
