"""JSON Schemas of what client programs read and write: specs, and batch lines of each table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from chaos.clients.protocol import (
    AssignConsumerSpec,
    GroupConsumerSpec,
    ProcessorSpec,
    ProducerSpec,
    ShareConsumerSpec,
)
from chaos.ledger.schemas import REQUIRED, SCHEMA_VERSION, TABLES, VALUES

SPECS = (ProducerSpec, ProcessorSpec, GroupConsumerSpec, AssignConsumerSpec, ShareConsumerSpec)

_INTEGER = {"type": "integer"}


def all_schemas() -> dict[str, Any]:
    """Return the schema of each spec by its program, and of the header and each line of each table."""
    return {
        "specs": {spec.model_fields["program"].default: spec.model_json_schema() for spec in SPECS},
        "header": _object(
            {"schema": {"const": SCHEMA_VERSION}, "table": {"enum": list(REQUIRED)}}, ["schema", "table"]
        ),
        "lines": {table: line_schema(table) for table in REQUIRED},
    }


def line_schema(table: str) -> dict[str, Any]:
    """Return the schema of a batch line of a table."""
    columns = {}
    for field in TABLES[table]:
        value: dict[str, Any] = {"type": ["string" if field.type == pa.string() else "integer"]}
        if known := VALUES.get(table, {}).get(field.name):
            value["enum"] = list(known)
        if field.name not in REQUIRED[table]:
            value["type"].append("null")
            if "enum" in value:
                value["enum"].append(None)
        forms = [value, {"type": "array", "items": value}]
        columns[field.name] = {"anyOf": forms + (NUMBERS if pa.types.is_integer(field.type) else [])}
    return _object(columns, list(REQUIRED[table]))


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


NUMBERS = [
    _object({"first": _INTEGER, "steps": {"type": "array", "items": _INTEGER}}, ["first", "steps"]),
    _object(
        {"first": _INTEGER, "step": {"const": 1}, "rows": {"type": "integer", "minimum": 1}}, ["first", "step", "rows"]
    ),
]
"""The forms of a column of numbers as its first number and the steps; see `chaos.ledger.files`."""
