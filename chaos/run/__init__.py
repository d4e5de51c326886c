"""The contract between driving and judging: the run directory, its events and the typed results."""
