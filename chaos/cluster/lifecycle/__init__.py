"""The end and the loan of a cluster: the reaper, garbage collection (`gc`), and lending to other runs."""
