"""Reports about programs: VM instructions, summaries and graphs."""
