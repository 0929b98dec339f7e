"""Optimisation passes: each maps a program in the IR to an equivalent one."""
