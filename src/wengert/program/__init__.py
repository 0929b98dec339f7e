"""Reusable traces: the IR, the passes over it, its derivatives, and the VM that runs it."""
