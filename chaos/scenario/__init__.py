"""The scenario: one YAML file that says what to deploy, who writes and reads, what breaks when, and what must hold.

`model` is its shape (each field documented; `python -m chaos schema` writes it as JSON Schema), `rules` what ties the
parts together, `expect` the contract, `triggers` when things happen and at whom they aim, `load` reads files and
explains mistakes, `resolve` leaves nothing open.
"""

from chaos.scenario.expect import Bound, Expect
from chaos.scenario.load import find, load, parse, shipped
from chaos.scenario.model import Assign, Cluster, Commit, Consumer, Scenario, StartAt, Subscribe, Topic
from chaos.scenario.producers import Processor, Producer, Transactions
from chaos.scenario.resolve import Resolved, read, resolve, save

__all__ = [
    "Assign",
    "Bound",
    "Cluster",
    "Commit",
    "Consumer",
    "Expect",
    "Processor",
    "Producer",
    "Resolved",
    "Scenario",
    "StartAt",
    "Subscribe",
    "Topic",
    "Transactions",
    "find",
    "load",
    "parse",
    "read",
    "resolve",
    "save",
    "shipped",
]
