"""The catalogue: every shipped scenario, one after another, on as few clusters as they allow.

- `cases` is what there is to run, and what each of it expects;
- `runner` runs cases, each worker with a cluster (`lender`) that one case after another is lent: its `turn`;
- `judge` is the process that judges all of them with one Spark session, while the next one is driven.

A scenario gets the cluster of an earlier one only if both ask for the same (`chaos.stages.cluster_spec`), and if that
is well and empty again (`chaos.cluster.lending`). No case is ever run again because of its verdict.
"""
