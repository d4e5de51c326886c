"""The catalogue: every shipped scenario, one after another, on as few clusters as they allow.

- `cases` is what there is to run, and what each of it expects;
- `runner` runs cases, each worker with a cluster (`lender`) that one case after another is lent: its `turn`;
- `judge` is the process that judges all of them with one Spark session, while the next one is driven.

A scenario reuses the cluster of an earlier one only if both need the same (`chaos.drive.stages.cluster_spec`) and the
cluster is healthy and empty again (`chaos.cluster.lifecycle.lending`). No case runs again because of its verdict.
"""
