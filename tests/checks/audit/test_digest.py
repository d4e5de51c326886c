"""Digests of the record at each offset: independent of the parts, different for any other record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.ledger.schemas import LOG
from checks.audit.engine.counters import LOG_DIGEST
from checks.audit.engine.parts import Part
from checks.audit.engine.summaries import add_digests
from checks.audit.engine.tally import Tally, merge_all

COLUMNS = ("producer", "incarnation", "seq", "topic", "partition", "offset")
ROWS = [
    {"producer": f"shop/{n % 2}", "incarnation": 1, "seq": n, "topic": "orders", "partition": n % 3, "offset": n}
    for n in range(3000)
]


def digests(*parts: list[dict[str, Any]]) -> dict[Any, int]:
    """By place, of rows that lie in these parts; each is looked at by a separate task."""
    packed = []
    for rows in parts:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=LOG), sink)
        tally = Tally()
        part = Part("log", "part-0.parquet", sink.getvalue(), COLUMNS)
        add_digests(part, LOG_DIGEST, np.arange(part.rows), tally)
        packed.append(tally.pack())
    return dict(merge_all(packed).each(LOG_DIGEST))


def test_how_many_parts_the_rows_lie_in_makes_no_difference() -> None:
    whole = digests(ROWS)
    assert len(whole) == 3
    assert whole == digests(ROWS[:1000], ROWS[1000:1001], ROWS[1001:]) == digests(ROWS[::-1])


@pytest.mark.parametrize("change", [{"seq": 1}, {"offset": 4000}, {"producer": "shop/9"}, {"incarnation": 2}])
def test_another_record_is_another_digest(change: dict[str, Any]) -> None:
    assert digests([ROWS[0] | change, *ROWS[1:]])["orders", 0, 0] != digests(ROWS)["orders", 0, 0]
