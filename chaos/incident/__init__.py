"""Incidents: an incident is packed into one file, and a scenario is drafted from the logs of its brokers.

- `bundle` packs a run with its versions into one file, detects changes to that file, and unpacks it safely;
- `logs` writes a draft of a scenario from the logs of brokers; `from_logs` is its use case.

`chaos.campaign` runs an incident again, reduces it to its cause, and compares it with a fix.
"""
