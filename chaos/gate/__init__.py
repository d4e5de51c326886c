"""The gate: a matrix of scenarios, releases and settings, run repeatedly, with one answer: may we release or upgrade?

    GATE.yaml ─ matrix ─► cells ─ runner ─► runs.d/*.jsonl ─ judge ─► gate.json ─► summary.md junit.xml report.html

- `gate` holds the use cases: plan a gate, run it or some of its cells, judge its stored runs;
- `model` is the content of a gate file; `matrix` makes its cells and refuses bad input before anything starts;
- `runner` runs cells on lent clusters, and `folder` stores each finished run at once;
- `baseline` pairs the cells with those that they are compared with, and `ranks` is the statistics of their times;
- `judge` decides from the stored runs alone. A run that breaks its contract fails the gate, however many pass; after n
  passes, fewer than 1 - 0.05^(1/n) of runs fail, at 95 % confidence. What is unknown makes the gate inconclusive.
"""
