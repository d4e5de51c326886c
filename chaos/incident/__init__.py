"""Incidents: what happened once is kept, made to happen again, made small, and its cause named.

- `bundle` packs a run into one file that can be told from an altered or a cut one, and opens it safely;
- `logs` makes the skeleton of a scenario from the logs of brokers;
- `subject` is what is to be run again: a bundle, a run directory or a scenario;
- `outcome` is what a run showed, and when two runs showed the same;
- `lab` runs one candidate after another on clusters that they share where they can;
- `again` (replay and repeat), `shrink` and `bisect` are the commands; `search` holds their algorithms, which are pure:
  they ask a function what is seen, and never start anything.

Exit codes: 0 and 1 as each command says; 2 bad input, nothing was run; 3 it cannot be told; 130 interrupted.
"""
