"""The traced values that a differentiated function computes with."""
