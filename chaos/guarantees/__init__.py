"""Guarantees: what settings promise, and what is left of the promise under faults.

1. `dialects`, `application` and `from_cluster` read settings: from an `app.yaml`, from settings files, from a cluster
   that exists. Each value is a `Setting` with its origin, such as `app.yaml:4` (`values`).
2. `facts` brings them under common names, such as `producer.acks`, and adds what a client or a broker uses where they
   say nothing: the defaults of the release (`traits` of a library, `defaults.yaml`), and what a client changes by
   itself. `names` finds settings that are unknown, or of another client.
3. `table` has the rules (`rules/`) and the one evaluator that compares them with facts: true, false or unknown.

The table answers two questions:

- **What do these settings promise?** `promises`, for `python -m chaos promise`: each question about an aspect has
  rules, and the first rule that holds is the answer. If a fact is missing, the answer is `unknown` and names it. A
  client or a broker that refuses its settings promises nothing: that is an error.
- **What is left of it under these faults?** `contract`, for `expect: promised`: `situations` makes one situation of
  each client and each topic of a scenario, `faults` adds what the faults do there, and each line is allowed, not
  decided or forbidden. A line is allowed if it is allowed in one situation. Only the faults of the scenario break
  things: what none of them can cause is forbidden. A line is not decided if it depends on times that no setting
  bounds, or on settings that are not known; an anomaly of such a line makes the run inconclusive, so it is never green
  by mistake. `supports`, for `chaos.campaign.prove`, says which faults cut what keeps a promise.

A promise holds by Kafka's protocol under the faults that it names. It says nothing about bugs of a release.
"""
