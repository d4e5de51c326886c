"""The incarnations of instances, to which the frames of the wire belong by their times."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.ledger.schemas import TABLES
from chaos.run.directory import Run
from checks.wire.coordination import OPEN_US, Hold, Holds
from checks.wire.ledger import _ends, _in_two_groups

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


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ({}, True),
        ({"begin_us": 60, "end_us": 70}, True),
        ({"group": "g"}, False),  # the group gave it again to the process, or to another of its threads
        ({"begin_us": 90}, False),  # its first consumer had been closed
        ({"incarnation": 2}, False),
        ({"instance": "app/2"}, False),
        ({"topic": "stock"}, False),  # nothing is read back of it
        ({"partition": 1}, False),
    ],
)
def test_a_process_that_reads_a_partition_in_two_groups_at_once_is_named(second, found):
    """A Fetch does not name its group, so the records would all be of one of them."""
    more = dict(second)
    held, first = Holds(), Hold("app/1", 1, "g", "subscribe", "m", None, 1, 10, 90)
    held.of["orders", 0].append(first)
    place = more.pop("topic", "orders"), more.pop("partition", 0)
    held.of[place].append(replace(first, **{"group": "h", "begin_us": 50, "end_us": OPEN_US} | more))
    why = "app/1 reads orders in groups g and h at once, so which of them a record is for is not known"
    assert _in_two_groups(held, ["orders"]) == [why] * found
