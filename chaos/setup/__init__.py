"""The setup of a scenario: what a run deploys, before any fault, and the words with which a scenario speaks of it.

- `model`: the cluster, the topics, and `Setup`, the part of a scenario without its faults and its contract. It also
  checks references to its parts.
- `clients`, `share`, `timestamps`: the entries of clients, and what a field asks of the client library of its entry.
- `triggers`: when a fault occurs, and what it hits.
- `names`: types of names and addresses, the prefix on an existing cluster, and the nearest name to a mistake.

Faults (`chaos.faults`) act on a setup. A scenario (`chaos.scenario`) is a setup with faults and a contract.
"""
