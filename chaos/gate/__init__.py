"""The gate: a matrix of scenarios, releases and settings, run so many times, and one answer: may we go there?

    GATE.yaml ─ matrix ─► cells ─ running ─► runs.d/*.jsonl ─ judge ─► gate.json ─► summary.md junit.xml report.html

- `model` is what a gate file says; `matrix` makes its cells, and refuses what makes no sense before anything starts;
- `running` runs them, on clusters that they share where they can, and keeps each finished run at once;
- `ranks` is the statistic of times; `judge` decides, from what was kept and nothing else;
- `result` is what a gate found, and what a later one may be held against: `baseline` fits the two together.

**Integrity.** A run that breaks its scenario's contract fails its cell, and the gate: an anomaly beyond the contract is
never outvoted. What passing n times is worth stands beside it: fewer than 1 - 0.05^(1/n) of runs
would fail, at 95 %.

**Time.** Cells are held against the same cell of a stored baseline, or against the cell of this very matrix that
`against` names. A time is *slower* if it is shown to be more than `margin` times what it was: see `chaos.gate.ranks`.

**Not known** is never green: a run that could not tell, a cell that was not run, and times of which too few were
measured to show anything make the gate inconclusive, and are named.
"""
