"""The field reference: every field of a scenario, model by model."""

from __future__ import annotations

import inspect

from pydantic import BaseModel

from chaos.cluster.verbs import Verbs
from chaos.kafka.security import Security
from chaos.reference.markdown import anchor, table
from chaos.reference.models import rows
from chaos.scenario.consumers import Assign, Commit, StartAt, Subscribe, Workers
from chaos.scenario.expect import Bound, DuplicateDelivery, GroupBound, TimeBound
from chaos.scenario.model import Limits, Scenario, Variant
from chaos.scenario.producers import Processor, Producer, Transactions
from chaos.scenario.setup import Clients, Cluster, Topic

_HEAD = """# The fields of a scenario

A scenario is one YAML file: what to deploy, which clients run, which faults occur when, and what must hold. How to
write one: [`chaos/scenarios`](../scenarios/README.md). Unknown keys are refused, with the nearest valid key. `python -m
chaos show FILE` prints a scenario with every default, `python -m chaos schema` the JSON Schema. Names in *italics* are
parts with a section below. Values of `faults:`: [faults](../faults/README.md). Values of `expect:`:
[checks](../../checks/audit/README.md), and the parts below.
"""
PARTS: dict[str, type[BaseModel]] = {
    "Scenario": Scenario,
    "Cluster": Cluster,
    "Security": Security,
    "Verbs": Verbs,
    "Clients": Clients,
    "Topic": Topic,
    "Producer": Producer,
    "Transactions": Transactions,
    "Subscribe": Subscribe,
    "Assign": Assign,
    "StartAt": StartAt,
    "Commit": Commit,
    "Workers": Workers,
    "Processor": Processor,
    "Bound": Bound,
    "DuplicateDelivery": DuplicateDelivery,
    "TimeBound": TimeBound,
    "GroupBound": GroupBound,
    "Limits": Limits,
    "Variant": Variant,
}
"""The parts that have a section, in reading order."""
EXPECT = "[Expect](../../checks/audit/README.md)"
FAULTS = "a list of [faults](../faults/README.md)"


def page() -> str:
    """Return the page in Markdown."""
    return "\n".join([_HEAD, *(_section(name, model) for name, model in PARTS.items())])


def _section(name: str, model: type[BaseModel]) -> str:
    meaning = " ".join((inspect.getdoc(model) or "").split())
    lines = [
        [field, FAULTS if field == "`faults`" else _linked(takes), default, description]
        for field, takes, default, description in rows(model)
    ]
    return f"## {name}\n\n{meaning}\n\n" + table(["field", "takes", "default", "meaning"], lines)


def _linked(takes: str) -> str:
    for name in PARTS:
        takes = takes.replace(f"*{name}*", f"[{name}](#{anchor(name)})")
    return takes.replace("*Expect*", EXPECT)
