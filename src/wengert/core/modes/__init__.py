"""Forward, reverse, nested and second derivatives of recorded functions."""
