"""Root finding on the programs of equations, called from C, and linear equations with their Jacobian."""
