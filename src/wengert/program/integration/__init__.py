"""Integration of initial value problems as single IR instructions, by native steppers."""
