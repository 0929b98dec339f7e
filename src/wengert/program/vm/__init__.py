"""The virtual machine (VM) that runs programs."""
