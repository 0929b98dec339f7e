"""Recordings made reusable: lists of instructions, the passes over them, and the machine that runs them."""
