"""The traced values with which a differentiated function computes."""
