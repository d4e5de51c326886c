"""The gate: a matrix of scenarios, releases and settings, run repeatedly, with one answer: may we release or upgrade?

    GATE.yaml ─ matrix ─► cells ─ runner ─► runs.d/*.jsonl ─ judge ─► gate.json ─► summary.md junit.xml report.html

- `gate` holds the use cases: plan a gate, run it or some of its cells, judge its stored runs;
- `model` is the content of a gate file; `matrix` makes its cells and refuses bad input before anything starts;
- `runner` runs cells on lent clusters, and `folder` stores each finished run at once;
- `ranks` is the statistics of times; `judge` decides from the stored runs alone;
- `baseline` pairs the cells with those that they are compared with. The result is `chaos.run.gate_result`.

**Integrity.** A run that breaks its scenario's contract fails its cell and the gate, however many runs pass. The
result states the strength of a pass: after n passes, fewer than 1 - 0.05^(1/n) of runs fail, at 95 % confidence.

**Time.** A cell is compared with the same cell of a stored baseline, or with the cell of this matrix that `against`
names. A time is *slower* if it is shown to be more than `margin` times the other: see `chaos.gate.ranks`.

**Unknown** is never green: inconclusive runs, cells that did not run, and times with too few values make the gate
inconclusive, and the result names them.
"""
