"""The scenario: one YAML file that says what to deploy, who writes and reads, what breaks when, and what must hold.

`model` is its shape, with `consumers` (each field documented; `python -m chaos schema` writes it as JSON Schema),
`rules` what ties the parts together, `expect` the contract, `triggers` when things happen and at whom they aim, `load`
reads files and explains mistakes, `resolve` leaves nothing open.
"""
