"""Filters and interpolation of images."""
