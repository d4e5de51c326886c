"""The scenario: one YAML file that says what to deploy, which clients run, which faults occur, and what must hold.

- `model`: the whole scenario. `setup` is its part without faults: cluster, topics, `clients`, and
  checks of references to them.
- `faults`: the specification of each kind of fault. `triggers`: when a fault occurs, and what it hits.
- `expect`: the contract.
- `rules`: what ties the parts together.
- `load`: reads a file and explains mistakes. `shipped`: the files that ship with Aftershock.
- `resolve`: fills in what is left open, such as the seed. `names`: types of names, and their prefix on an existing
  cluster.
- `timeline`: the ordered steps of a run.
"""
