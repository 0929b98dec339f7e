"""Reverse sweeps through many steps in little memory: states kept, and steps run again."""
