"""The attached driver: an existing cluster, which continues after the run.

Clients reach it through its bootstrap servers and `chaos.kafka.security`. Topics and groups of the run begin with the
prefix of the run. Nothing else is ever created, altered or deleted. Everything with the prefix is removed at the end,
if necessary by the reaper. Brokers are broken only if the scenario says `allow_faults: true`, the user says
`--i-own-this-cluster`, and the scenario has a command for it. Brokers that the run took down are restored at the end.

`cluster.json` is written before the first topic is created, so that everything can be found and removed.
"""
