"""Tracing: from a Python function to the IR."""
