"""The field reference: every field of a scenario, model by model, read from the JSON Schema."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticUndefined

from chaos.faults import SPECS
from chaos.faults.base import FaultSpec
from chaos.reference.markdown import anchor, code, table
from chaos.scenario.expect import Bound, Duplicates, Expect, GroupBound, TimeBound
from chaos.scenario.load import models_of
from chaos.scenario.model import Scenario
from chaos.units import Duration, Rate, Size, format_duration, format_size

_HEAD = """# The fields of a scenario

A scenario is one YAML file: what to deploy, which clients run, which faults occur when, and what must hold. How to
write one: [`chaos/scenarios`](../scenarios/README.md). Unknown keys are refused, with the nearest valid key. `python -m
chaos show FILE` prints a scenario with every default, `python -m chaos schema` the JSON Schema. Names in *italics* are
parts with a section below. Values of `faults:`: [faults](../faults/README.md). Values of `expect:`:
[checks](../../checks/audit/README.md), and the parts below.
"""
_OTHER_PAGES = {*models_of(Expect), *(name for spec in SPECS.values() for name in models_of(spec))}
PARTS = {name: model for name, model in models_of(Scenario).items() if name not in _OTHER_PAGES} | {
    model.__name__: model for model in (Bound, Duplicates, TimeBound, GroupBound)
}
"""The parts that have a section. Faults and anomalies have separate pages."""
EXPECT = "[Expect](../../checks/audit/README.md)"
FAULTS = "a list of [faults](../faults/README.md)"
_UNITS = {
    TypeAdapter(unit).json_schema()["pattern"]: (text, shown)
    for unit, text, shown in (
        (Duration, "a duration, such as `5s`", format_duration),
        (Size, "a size, such as `64MiB`", format_size),
        (Rate, "a rate, such as `500/s`", lambda rate: f"{rate:g}/s"),
    )
}
_SCALAR = "true or false or a whole number or a number or text"
_PLAIN = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}


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


def rows(model: type[BaseModel], leave_out: Iterable[str] = ()) -> list[tuple[str, str, str, str]]:
    """Return the fields of a model: name, kind of value, default and meaning, each as Markdown."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    if "$ref" in schema:  # the model refers to itself
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    return [
        (f"`{name}`", _takes(part, definitions), _default(model, name, part), part.get("description", ""))
        for name, part in schema["properties"].items()
        if name not in set(leave_out)
    ]


def models() -> dict[str, type[FaultSpec]]:
    """Return the specification of each kind of fault, grouped by the first part of the kind."""
    groups = list(dict.fromkeys(map(group_of, SPECS)))
    return {kind: SPECS[kind] for kind in sorted(SPECS, key=lambda kind: groups.index(group_of(kind)))}


def group_of(kind: str) -> str:
    """Return the first part of a kind of fault."""
    return kind.partition(".")[0]


def _takes(part: dict[str, Any], definitions: dict[str, Any]) -> str:
    if (unit := _unit(part)) is not None:
        return unit[0]
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return _takes(definitions[name], definitions) if "enum" in definitions[name] else f"*{name}*"
    if "const" in part:
        return literal(part["const"])
    if "enum" in part:
        return ", ".join(literal(value) for value in part["enum"] if value is not None)
    if options := part.get("anyOf") or part.get("oneOf"):
        arms = [_takes(p, definitions) for p in options if p.get("type") != "null"]
        return " or ".join(dict.fromkeys(arms))
    if part.get("type") == "array":
        return f"a list of {_takes(part.get('items', {}), definitions)}"
    if part.get("type") == "object":
        value = part.get("additionalProperties")
        each = _takes(value, definitions) if isinstance(value, dict) else _SCALAR
        return f"by name: {each}" if each != _SCALAR else "values by name"
    kind: Any = part.get("type")
    kinds: list[str] = kind if isinstance(kind, list) else [str(kind)]
    return " or ".join(_PLAIN.get(k, "anything") for k in kinds) + _bounds(part)


def _bounds(part: dict[str, Any]) -> str:
    low, above, high = part.get("minimum"), part.get("exclusiveMinimum"), part.get("maximum")
    if low is not None and high is not None:
        return f", {low:g} to {high:g}"
    if above is not None:
        return f" above {above:g}" + (f", at most {high:g}" if high is not None else "")
    if low is not None:
        return f", at least {low:g}"
    return f", at most {high:g}" if high is not None else ""


def _unit(part: dict[str, Any]) -> tuple[str, Any] | None:
    return _UNITS.get(str(part.get("pattern")))


def _default(model: type[BaseModel], name: str, part: dict[str, Any]) -> str:
    """Return the value that holds if the field is left out."""
    field = model.model_fields[name]
    if field.is_required():
        return "**required**"
    defaults = {other: f.default for other, f in model.model_fields.items()}
    value = field.get_default(call_default_factory=True, validated_data=defaults)
    if value is PydanticUndefined or value is None or value in ([], {}, ""):
        return ""
    if isinstance(value, BaseModel):
        explicit = value.model_dump(mode="json", exclude_unset=True)
        return literal(explicit) if explicit else "its defaults"
    for option in [part, *part.get("anyOf", [])]:
        if (unit := _unit(option)) is not None:
            return f"`{unit[1](value)}`"
    return literal(value)


def literal(value: Any) -> str:
    """Return a value as inline code, as YAML writes it."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, dict):
        return "`{" + ", ".join(f"{k}: {literal(v).strip('`')}" for k, v in value.items()) + "}`"
    return code([str(value)])
