"""Dispatches NumPy's protocols to the rules of the registry."""
