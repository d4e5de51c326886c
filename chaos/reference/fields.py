"""The fields of a scenario, model by model."""

from __future__ import annotations

import inspect

from pydantic import BaseModel

from chaos.cluster.verbs import Verbs
from chaos.kafka.security import Security
from chaos.reference.markdown import anchor, table
from chaos.reference.models import rows
from chaos.scenario.consumers import Assign, Commit, StartAt, Subscribe, Workers
from chaos.scenario.expect import Bound, DuplicateDelivery, GroupBound, TimeBound
from chaos.scenario.model import Clients, Cluster, Limits, Scenario, Topic, Variant
from chaos.scenario.producers import Processor, Producer, Transactions

_HEAD = """# The fields of a scenario

One YAML file says what to deploy, who writes and reads, what breaks when, and what must hold. How to write one:
[`chaos/scenarios`](../scenarios/README.md). Unknown keys are refused, with the nearest known one. `python -m chaos show
FILE` fills in every default, `python -m chaos schema` prints the JSON Schema. Names in *italics* are parts with fields
of their own, further down. What `faults:` takes: [faults](../faults/README.md); what `expect:` takes, beside the parts
here: [checks](../../checks/audit/README.md).
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
"""The parts that have a section, in the order in which a reader meets them."""
EXPECT = "[Expect](../../checks/audit/README.md)"
FAULTS = "a list of [faults](../faults/README.md)"


def page() -> str:
    """The page."""
    return "\n".join([_HEAD, *(_section(name, model) for name, model in PARTS.items())])


def _section(name: str, model: type[BaseModel]) -> str:
    words = " ".join((inspect.getdoc(model) or "").split())
    lines = [
        [field, FAULTS if field == "`faults`" else _linked(takes), default, meaning]
        for field, takes, default, meaning in rows(model)
    ]
    return f"## {name}\n\n{words}\n\n" + table(["field", "takes", "default", "meaning"], lines)


def _linked(takes: str) -> str:
    for name in PARTS:
        takes = takes.replace(f"*{name}*", f"[{name}](#{anchor(name)})")
    return takes.replace("*Expect*", EXPECT)
