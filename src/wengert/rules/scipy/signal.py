"""Filters, convolutions and spectra of signals."""
