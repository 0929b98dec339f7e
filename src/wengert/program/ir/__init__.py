"""The intermediate representation: its container, opcodes, verifier, interpreter and printer."""
