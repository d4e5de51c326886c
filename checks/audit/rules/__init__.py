"""The rules: one for each anomaly of `chaos.anomalies`, under the same name, in one module per family.

`rule.Rule` has the fields of a rule, `registry.RULES` has the rules by name, and `registry` applies them to a block and
to the run. A rule of rows (records sent, in the log, delivered, acquired; commits) is vectorised: it judges one block,
as `producer_block`, `partition_block`, `share_block`, `engine.commits`, `engine.keys` and `engine.outputs` give it. A
rule of small tables (assignments, transactions, observations of groups, of coordinators and of the quorum) is plain
Python over the whole run.
"""
