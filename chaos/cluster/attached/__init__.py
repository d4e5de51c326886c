"""The attached driver: a cluster that exists and goes on existing.

Clients reach it by its bootstrap servers and `chaos.kafka.security`. Topics and groups of the run begin
with the run's prefix; nothing else is ever created, altered or deleted, and what has the prefix is removed at the end,
by the reaper if need be. Brokers are broken only where the scenario says `allow_faults: true`, its owner said
`--i-own-this-cluster`, and a command is given for it; those that a run took down are brought back before it lets go.

- `driver` is the cluster as the platform sees it, `entry` how it is found, `verbs` how commands are run,
  `connection` how it is told by Airflow's connections.
- `cluster.json` is written before the first topic is made, so that whatever is made can be found and removed.
"""
