"""Distances and rotations."""
