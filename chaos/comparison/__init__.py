"""The comparison of client libraries: the same scenarios with each library that can run them, side by side.

    scenarios, libraries ─ gate.matrix ─► cells ─ gate.runner ─► runs.d/*.jsonl ─ judge ─► clients.json ─► its pages

- `compare` is the use case: plan, run what is not stored yet, judge, write;
- `measures` takes the compared values from a run;
- `judge` puts them side by side. Cells, runs, verdicts and the rank test are those of a gate.
"""
