"""The lab: the machinery that drives runs and has them judged.

- `judge` starts `python -m checks`: one process judges many runs with one Spark session;
- `lender` lends one cluster to run after run;
- `lab` drives many runs on lent clusters, for the catalogue, gates and incidents;
- `single` drives and judges one run on a cluster that only this run uses;
- `child_call` calls a function in a child process that its caller can kill;
- `progress` is the protocol by which all of them report progress.
"""
