"""Campaigns: many runs with one question, such as a gate, a comparison, a repetition, a bisection.

- `subject` is a scenario that runs: of a bundle, a run directory or a file; `clients` gives it another client library;
- `trials` runs subjects one after another in the lab (`chaos.lab`); `score` compares, merges and counts their outcomes;
- `replay`, `repeat`, `ab`, `shrink` and `bisect` are the use cases, one function each: it takes the request, reports
  progress to a listener and returns a typed result; `reproduction` calls one of them for a DAG;
- `search` holds the search algorithms, `reduce` the parts of a scenario that can be removed.

Exit codes: 0 and 1 as each command defines them; 2 bad input, nothing was run; 3 no answer; 130 interrupted.
"""
