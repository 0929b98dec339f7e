"""The virtual machine that runs programs."""
