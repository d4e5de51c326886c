"""The scenario: one YAML file that says what to deploy, which clients run, which faults occur, and what must hold.

- `model`: the whole scenario, which is a setup (`chaos.setup`) with faults, and the contract, `expect`.
- `rules` and its parts (`…_rules`, `members`, `retention`): what ties the parts together.
- `load`: reads a file and explains mistakes. `shipped`: the files that ship with Aftershock.
- `resolve`: fills in what is left open, such as the seed.
- `timeline`: the ordered steps of a run.
"""
