"""The comparison of client libraries: the same scenarios with each library that can run them, side by side.

- `compare` is the use case: plan, run what is not stored yet, judge, write. Cells and trials are made as for a gate;
- `measures` takes the compared values from a run;
- `side_by_side` compares them, with the rank test of gates.
"""
