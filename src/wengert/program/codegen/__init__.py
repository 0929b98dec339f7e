"""Machine code for scalar programs and loops, through LLVM."""
