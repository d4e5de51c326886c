"""The field reference: every field of a scenario, model by model."""

from __future__ import annotations

import inspect

from pydantic import BaseModel

from chaos.reference.markdown import anchor, table
from chaos.reference.models import rows
from chaos.scenario.expect import Bound, DuplicateDelivery, Expect, GroupBound, TimeBound
from chaos.scenario.faults import specs
from chaos.scenario.load import models_of
from chaos.scenario.model import Scenario

_HEAD = """# The fields of a scenario

A scenario is one YAML file: what to deploy, which clients run, which faults occur when, and what must hold. How to
write one: [`chaos/scenarios`](../scenarios/README.md). Unknown keys are refused, with the nearest valid key. `python -m
chaos show FILE` prints a scenario with every default, `python -m chaos schema` the JSON Schema. Names in *italics* are
parts with a section below. Values of `faults:`: [faults](../faults/README.md). Values of `expect:`:
[checks](../../checks/audit/README.md), and the parts below.
"""
_OTHER_PAGES = {*models_of(Expect), *(name for spec in specs().values() for name in models_of(spec))}
PARTS = {name: model for name, model in models_of(Scenario).items() if name not in _OTHER_PAGES} | {
    model.__name__: model for model in (Bound, DuplicateDelivery, TimeBound, GroupBound)
}
"""The parts that have a section. Faults and anomalies have separate pages."""
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
