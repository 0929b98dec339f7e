"""Newton's method on the programs of equations, called from C, and linear equations with their Jacobian."""
