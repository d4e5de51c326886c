"""The suite: all points for the chosen kinds of programs, on a separate broker; JSON Schemas of specs and lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from chaos.clients.protocol import (
    AssignConsumerSpec,
    GroupConsumerSpec,
    ProcessorSpec,
    ProducerSpec,
    Program,
    ShareConsumerSpec,
)
from chaos.clients.traits import Ability
from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.conformance import readers, writers
from chaos.conformance.bench import Bench, Broken, Point
from chaos.errors import ClientError, UsageError, WaitTimeout
from chaos.install.cache import Progress
from chaos.ledger.schemas import REQUIRED, SCHEMA_VERSION, TABLES, VALUES
from chaos.processes.process import ProcessId, end_run
from chaos.run.directory import Run, new_run_id

CASES: dict[str, Callable[[Bench], writers.Steps]] = {
    "producer": writers.producer,
    "transactions": writers.transactions,
    "processor": writers.processor,
    "group_consumer": readers.group_consumer,
    "assign_consumer": readers.assign_consumer,
}
"""The cases of the suite: a kind of program, or something that not every library has."""
NEEDS: dict[str, Ability] = {
    "producer": "produce",
    "transactions": "transactions of a size",
    "processor": "process",
    "group_consumer": "subscribe",
    "assign_consumer": "assign",
    "records the offset of each record": "send outcomes",
    "obeys the order seek": "seek",
    "starts at the committed offsets of a group": "group offsets",
}
"""What a case or a point needs of a shipped runtime. Where its traits deny that, the point is not judged."""
DEADLINE_S = 900.0
BROKER = {"offsets.topic.num.partitions": 4, "group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500}


def chosen_cases(only: Sequence[str]) -> list[str]:
    """Return the cases of the given names, or all of them. Raises `UsageError`."""
    if unknown := [name for name in only if name not in CASES]:
        raise UsageError(f"--only {unknown[0]}: there is no such case; the cases are {', '.join(CASES)}")
    return [name for name in CASES if not only or name in only]


def check(
    command: Callable[[Program], Sequence[str]],
    cases: Sequence[str],
    runs_dir: Path,
    on_progress: Progress,
    missing: Callable[[Ability], str] = lambda ability: "",
    lacks_setting: Callable[[str], str] = lambda name: "",
) -> Iterator[Point]:
    """Start the program in every case, and yield each point as it is judged. Nothing is left running at the end.

    missing: returns why a runtime lacks an ability; empty if it has it. lacks_setting: the same of a setting.
    """
    run = Run.create(runs_dir, new_run_id("client-check"))
    on_progress(f"starting a broker; the ledger and the logs are in {run.path}")
    cluster = ProcessCluster.deploy(
        run, ClusterSpec(brokers=1, config=BROKER), ProcessId.current(), deadline_s=DEADLINE_S, on_progress=on_progress
    )
    bench = Bench(run, cluster.bootstrap, command, lacks_setting)
    try:
        for case in cases:
            yield from points(case, bench, missing)
    finally:
        bench.end()
        cluster.destroy()
        end_run(run.path)


def points(case: str, bench: Bench, missing: Callable[[Ability], str] = lambda ability: "") -> Iterator[Point]:
    """Yield the points of a case. After the first one that does not hold, the others are not reached."""
    broken = False
    for name, judge in CASES[case](bench):
        if lacks := next((why for key in (case, name) if key in NEEDS and (why := missing(NEEDS[key]))), ""):
            yield Point(case, name, reached=False, lacks=lacks)
            continue
        if broken:
            yield Point(case, name, reached=False)
            continue
        reason = ""
        try:
            judge()
        except (Broken, ClientError, WaitTimeout) as e:
            reason = str(e) or type(e).__name__
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
            reason = f"its rows or events have another form: {type(e).__name__}: {e}"
        except OSError as e:
            reason = f"it is gone: {e}"
        broken = bool(reason)
        yield Point(case, name, reason)


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
