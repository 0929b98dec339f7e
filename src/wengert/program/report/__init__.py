"""Reports about programs: VM kernels, summaries and graphs."""
