"""The small tables of the judgement in `audit/`, and their reading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.run.directory import Run
from chaos.run.result import EFFECT_KINDS
from chaos.setup.effects import Effect

_str, _i32, _i64 = pa.string(), pa.int32(), pa.int64()

INPUTS = "effect_inputs"
"""The joined table: a folder for each effect, with a row for each input (or key of an aggregate) and what it has, and
for each id of an effect that is of no input. All have `effect` and the columns `JUDGED`, besides those of the join."""
OPEN = "_open"
SPANS = ("least_us", "late_us")
BEHIND = "behind"
"""Inputs that were acknowledged when a fault came, and had no effect yet: what is lost if all ends there (RPO)."""
JUDGED = (*(f"{kind}{end}" for kind in (*EFFECT_KINDS, BEHIND) for end in ("", OPEN)), *SPANS)
"""For each kind, the effects of the row that are certainly of it, and those that may be. The time from acknowledgement
to the last effect that the input must have, as a range in us; null if it is not done, or was not seen."""
STATISTICS = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
TOTALS = pa.schema(
    [("effect", _str), ("kind", _str), ("count", _i64), ("undecided", _i64), ("examined", _i64), ("why", _str)]
)
"""One row per effect and kind: missing, duplicate, unexpected, wrong, behind, and `late p50`, p95, p99 and max, in us.
The number is from `count` to `count` + `undecided`. `examined`: the inputs or effects that were compared. `why`: why
the number is a range, or why there is none (`count` is null then)."""
_FRAME = pa.struct([("at_us", _i64), *((name, _str) for name in ("source", "target", "label", "words"))])
FINDINGS = pa.schema(
    [
        *(("effect", _str), ("kind", _str), ("id", _str), ("producer", _str), ("seq", _i64)),
        *(("topic", _str), ("partition", _i32), ("offset", _i64), ("acked_us", _i64), ("at_us", _i64)),
        *(("places", pa.list_(_str)), ("times_us", pa.list_(_i64)), ("expected", _str), ("found", _str), ("why", _str)),
        *(("frames", pa.list_(_FRAME)), ("ending", _str), ("cause", _str), ("library", _str)),
    ]
)
"""The first findings of each effect and kind, with the input and with where and when the effects are. `why`: what the
write path did, such as a record that is lost. The last four columns are the story of the findings in the report, from
the wire (`checks.effects.story`): frames in order, how its sentence ends, key of its cause, library as announced."""


def inputs_of(run: Run, effect: Effect) -> Path:
    """Return the folder of an effect in the joined table. Readers of Parquet pass over names that begin with _ or ."""
    return run.audit / INPUTS / f"of-{effect.name}"


def span(kind: str, sure: int, more: int, without_id: int) -> tuple[int, int]:
    """Return the range of the number of a kind. A row without an id may be any effect, and so a missing one."""
    falls = kind in ("missing", BEHIND)
    return (sure - min(without_id, sure), sure + more) if falls else (sure, sure + more + without_id)


def nearest_rank(share: float, number: int) -> int:
    """Return the place of a percentile among sorted values, from 0."""
    return max(1, math.ceil(share * number)) - 1


def write_table(folder: Path, rows: Sequence[dict[str, Any]], schema: pa.Schema) -> None:
    """Write rows as a table of the audit."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema), folder / "part-0.parquet", compression="zstd")
