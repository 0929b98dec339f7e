"""From a Python function to the IR."""
