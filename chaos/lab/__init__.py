"""The lab: the machinery that drives runs and has them judged.

- `judge` starts `python -m checks`: one process judges many runs with one Spark session;
- `lab` drives many runs on clusters that it lends to run after run, for the catalogue, gates and incidents, and single
  runs, such as the variants of an A/B scenario, each on a separate cluster;
- `progress` is the receiver to which all of them report progress.
"""
