"""The incarnations of instances, to which the frames of the wire belong by their times."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.ledger.schemas import TABLES
from chaos.run.directory import Run
from checks.wire.ledger import _ends

CRASH = [("started", 1, 10), ("crashed", 1, 50), ("started", 2, 60)]


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        ([("started", 1, 10)], []),
        ([("started", 1, 10), ("stopped", 1, 50)], []),  # nothing comes after the last one
        ([*CRASH, ("stopped", 2, 90)], [50]),
        (CRASH, [50]),  # the drive broke off, so the second one has no end
        ([*CRASH, ("crashed", 2, 70), ("started", 3, 80)], [50, 70]),
        ([("started", 1, 10), ("started", 2, 60), ("stopped", 2, 90)], [60]),  # its end is not on record
        ([("started", 1, 10), ("started", 2, 60), ("crashed", 2, 70), ("started", 3, 80)], [60, 70]),
        ([*CRASH, ("stopped", 1, 55)], [55]),  # two say so
        ([("crashed", 1, 50), ("stopped", 2, 90)], [50]),
        ([("started", 1, 10), ("error", 1, 20), ("ready", 1, 30)], []),
    ],
)
@pytest.mark.parametrize("table", ["lifecycle", "apps"])
def test_the_ends_of_all_incarnations_but_the_last_one_are_known(tmp_path, table, rows, ends):
    run = Run.create(tmp_path, "t")
    who = {"lifecycle": {"client": "app/1", "role": "consumer"}, "apps": {"app": "app", "instance": 1}}
    for name, own in who.items():
        found = [
            own | {"event": event, "incarnation": number, "at_us": at_us, "detail": "{}"}
            for event, number, at_us in (rows if name == table else ())
        ]
        folder = run.ledger / f"{name}.parquet"
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(found, TABLES[name]), folder / "part-0.parquet")
    assert _ends(run) == {"app/1": ends}
