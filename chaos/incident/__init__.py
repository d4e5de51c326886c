"""Incidents: an incident is packed, run again, reduced to its cause, and compared with a fix.

- `bundle` packs a run with its versions into one file, detects changes to that file, and unpacks it safely;
- `logs` writes a draft of a scenario from the logs of brokers;
- `subject` is the input of all commands: the request, and the scenario of a bundle, a run directory or a file;
- `trials` runs subjects one after another in the lab (`chaos.lab`);
- `replay`, `repeat`, `ab`, `shrink` and `bisect` are the use cases, one function each: it takes the request, reports
  progress to a listener and returns a typed result; `reproduction` calls one of them for a DAG;
- `search` holds the search algorithms, `reduce` the parts of a scenario that can be removed, `outcomes` compares and
  merges outcomes and gives the rates of rare events.

Exit codes: 0 and 1 as each command defines them; 2 bad input, nothing was run; 3 no answer; 130 interrupted.
"""
