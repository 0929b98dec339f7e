"""`compile`: a guarded cache of programs, one for each specialisation."""
