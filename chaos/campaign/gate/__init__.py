"""The gate: a matrix of scenarios, releases and settings, run repeatedly, with one answer: may we release or upgrade?

- `gate` holds the use cases and the plan: all runs of all cells, round after round;
- `model` is the content of a gate file; `matrix` makes its cells, refuses bad input before anything starts, and pairs
  each cell with its reference, in this matrix or in a stored result; `chaos.run.ranks` is the statistics of times;
- `judge` decides from the stored runs alone. A run that breaks its contract fails the gate, however many pass; after n
  passes, fewer than 1 - 0.05^(1/n) of runs fail, at 95 % confidence. What is unknown makes the gate inconclusive.
"""
