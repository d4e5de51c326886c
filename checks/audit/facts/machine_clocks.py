"""The clocks of workers on other machines than the drive, and times by the clock of the drive.

The drive compares each clock once a second. Between two comparisons, the offset is interpolated. It may be wrong by the
uncertainty of both, by all that it changed between them, and by what two clocks can move apart meanwhile. So a clock
that is set while its clients run has an uncertainty as large as the step. Comparisons before and after do not count.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from chaos.scenario.model import Scenario
from chaos.units import CLOCK_RATE
from checks.audit.arrays import NEVER_US, NONE, Ints

MOST_US = 50_000
"""Uncertainty from which on no rule uses a clock: it was set during the run, or the network is too slow."""
APART_US = 5_000_000
"""Time without a comparison, before the first one or after the last one, for which the clock is unknown."""
DRIVE = ""
"""In place of a worker: the machine of the drive."""
HARMLESS = ("topic.config", "topic.delete_records")
"""The faults of topics after which times decide about no more records."""
BY_DRIVE = ("crashed", "usage")
"""The events of table `lifecycle` that the drive writes."""
LIFE_COLUMNS = ("client", "incarnation", "event", "detail", "at_us")
"""The columns of table `lifecycle` that `machine_clocks` reads."""

SMALL = {
    "assignments": ("consumer", ("at_us",)),
    "transactions": ("producer", ("began_us", "ended_us", "requested_us")),
}
LARGE: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "sends": (("producer", ("invoked_us", "completed_us")),),
    "deliveries": (("consumer", ("polled_us", "processed_us")), ("producer", ("sent_us",))),
    "commits": (("consumer", ("requested_us", "completed_us")),),
    "acquisitions": (("consumer", ("acquired_us",)), ("producer", ("sent_us",))),
    "acknowledgements": (("consumer", ("requested_us", "completed_us")),),
}
"""By table, the columns of clients and of the times that their clocks gave."""


@dataclass(frozen=True)
class MachineClock:
    """A clock. at_us: when it was compared, by itself, ascending. ahead_us: how far it was ahead then."""

    at_us: Ints
    ahead_us: Ints
    uncertainty_us: int

    def corrected(self, times: Ints) -> Ints:
        """Return times of this clock by the clock of the drive."""
        ahead = np.rint(np.interp(times, self.at_us, self.ahead_us)).astype(np.int64)
        by_drive: Ints = times - ahead
        return by_drive


@dataclass(frozen=True)
class MachineClocks:
    """The clocks of a run.

    worker_of: the worker of each client on another machine than the drive. clocks: by worker. apart: whether there are
    such workers. If so and `clocks` is empty, their clocks are not known well enough.
    """

    worker_of: Mapping[str, str] = field(default_factory=dict)
    clocks: Mapping[str, MachineClock] = field(default_factory=dict)
    apart: bool = False

    @property
    def slack_us(self) -> int:
        """The maximum error of a difference between times of two machines; 0 with one machine."""
        return sum(sorted(clock.uncertainty_us for clock in self.clocks.values())[-2:])

    def machine_of(self, client: str) -> str:
        """Return the worker of a client, `DRIVE` if it is on the machine of the drive."""
        return self.worker_of.get(client, DRIVE)

    def clock_of(self, client: str | None) -> MachineClock | None:
        """Return the clock of a client, None if it is that of the drive."""
        return self.clocks.get(self.worker_of.get(client or "", DRIVE))

    def by_drive(self, client: str | None, at_us: int) -> int:
        """Return a time of a client by the clock of the drive."""
        clock = self.clock_of(client)
        return int(clock.corrected(np.array([at_us]))[0]) if clock else at_us

    def corrected_rows(self, table: str, rows: pa.Table) -> pa.Table:
        """Return a small table with its times by the clock of the drive."""
        if not self.clocks or table not in (*SMALL, "lifecycle"):
            return rows
        owner, columns = SMALL.get(table, ("client", ("at_us",)))
        events = rows["event"].to_pylist() if table == "lifecycle" else [None] * len(rows)
        owners = zip(rows[owner].to_pylist(), events, strict=True)
        clients = [None if event in BY_DRIVE else client for client, event in owners]
        for name in columns:
            values = [
                None if value is None else self.by_drive(client, value)
                for client, value in zip(clients, rows[name].to_pylist(), strict=True)
            ]
            rows = rows.set_column(rows.column_names.index(name), rows.field(name), pa.array(values, pa.int64()))
        return rows

    def owners(self, table: str, columns: Sequence[str]) -> list[str]:
        """Return the columns of a large table with the clients that gave these times."""
        if not self.clocks:
            return []
        return [owner for owner, times in LARGE.get(table, ()) if set(times) & set(columns)]

    def corrected_part(self, table: str, rows: pa.Table) -> pa.Table:
        """Return rows of a large table with their times by the clock of the drive."""
        for owner, times in LARGE.get(table, ()) if self.clocks else ():
            present = [name for name in times if name in rows.column_names]
            if not present or not len(rows):
                continue
            clients = rows[owner].chunk(0)
            clients = clients if isinstance(clients, pa.DictionaryArray) else clients.dictionary_encode()
            codes = clients.indices.fill_null(NONE).to_numpy(zero_copy_only=False)
            clocks = list(map(self.clock_of, clients.dictionary.to_pylist()))
            for name in present:
                column = _corrected(rows[name].chunk(0), codes, clocks)
                rows = rows.set_column(rows.column_names.index(name), rows.field(name), column)
        return rows


ONE_CLOCK = MachineClocks()
"""The clocks of a run on one machine."""


def _corrected(column: pa.Array, codes: Ints, clocks: Sequence[MachineClock | None]) -> pa.Array:
    """Return a column of times by the clock of the drive. clocks: by the code of the client of a row."""
    null = column.is_null().to_numpy(zero_copy_only=False)
    values = np.array(column.fill_null(0), np.int64)
    for code, clock in enumerate(clocks):
        if clock is not None and len(mine := np.flatnonzero(codes == code)):
            values[mine] = clock.corrected(values[mine])
    return pa.array(values, pa.int64(), mask=null)


def machine_clocks(
    cluster: Iterable[Mapping[str, Any]], lifecycle: Sequence[Mapping[str, Any]], scenario: Scenario
) -> MachineClocks:
    """Return the clocks of a run, from the rows of the tables `cluster` and `lifecycle` (`LIFE_COLUMNS`).

    Not of scenarios of which rules compare times in ways that no uncertainty bounds here: with processors, with share
    groups, and with a topic that is deleted.
    """
    if not scenario.fleet:
        return MachineClocks()
    elsewhere, clients, compared = (
        set[str](),
        dict[str, list[str]](),
        defaultdict[str, list[tuple[int, int, int]]](list),
    )
    for worker, key, at_us, value in _of_workers(cluster):
        if key == "host" and not value["beside_drive"]:
            elsewhere.add(worker)
        elif key == "clients":
            clients[worker] = value
        elif key == "clock":
            compared[worker].append((at_us, *value))
    worker_of = {client: worker for worker in elsewhere for client in clients.get(worker, ())}
    found: dict[str, MachineClock] = {}
    if _is_too_much(scenario):
        return MachineClocks(worker_of, {}, apart=bool(elsewhere))
    for worker in sorted(elsewhere):
        clock = _clock(sorted(compared[worker]), [row for row in lifecycle if worker_of.get(row["client"]) == worker])
        if clock is None or clock.uncertainty_us > MOST_US:
            return MachineClocks(worker_of, {}, apart=True)
        found[worker] = clock
    return MachineClocks(worker_of, found, apart=bool(elsewhere))


def _is_too_much(scenario: Scenario) -> bool:
    others = any(f.kind.startswith("topic.") and f.kind not in HARMLESS for f in scenario.faults)
    return others or bool(scenario.processors) or bool(scenario.shares)


def _of_workers(cluster: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, int, Any]]:
    for row in cluster:
        if str(row["entity"]).startswith("worker:") and row["value"] is not None:
            yield str(row["entity"]).removeprefix("worker:"), row["key"], row["at_us"], json.loads(row["value"])


def _clock(compared: list[tuple[int, int, int]], lives: Sequence[Mapping[str, Any]]) -> MachineClock | None:
    """Return a clock from its comparisons (time of the drive, ahead, uncertainty); None if they do not span its times.

    lives: the rows of `lifecycle` of its clients.
    """
    if not compared:
        return None
    times = [row["at_us"] for row in lives if row["event"] not in BY_DRIVE]
    at_us, ahead_us, uncertainty_us = np.array(compared, np.int64).T
    if times:
        during = _during(at_us, at_us + ahead_us, uncertainty_us, (min(times), max(times)), _gone_us(lives))
        at_us, ahead_us, uncertainty_us = at_us[during], ahead_us[during], uncertainty_us[during]
    own_us = np.maximum.accumulate(at_us + ahead_us)
    before, after = int(own_us[0]) - min(times, default=own_us[0]), max(times, default=own_us[-1]) - int(own_us[-1])
    if max(before, after) > APART_US:
        return None
    between = np.maximum(uncertainty_us[1:], uncertainty_us[:-1]) + abs(np.diff(ahead_us)) + np.diff(at_us) * CLOCK_RATE
    edges = [uncertainty_us[0] + max(before, 0) * CLOCK_RATE, uncertainty_us[-1] + max(after, 0) * CLOCK_RATE]
    return MachineClock(own_us, ahead_us, int(np.ceil(max([*between.tolist(), *edges]))))


def _during(at_us: Ints, shown_us: Ints, uncertainty_us: Ints, span: tuple[int, int], gone_us: int) -> slice:
    """Return the comparisons that bound the times of clients: from the last one before them to the first one after.

    A comparison is left out only if no time of a client can be beyond the next one, even if the clock was set between
    the two. shown_us: what the clock showed. span: first and last time that clients wrote, by this clock. gone_us: see
    `_gone_us`.
    """
    elapsed_us = np.diff(at_us) * (1 + CLOCK_RATE)
    low, high = shown_us - uncertainty_us, shown_us + uncertainty_us
    begun = np.maximum(high[:-1] + elapsed_us, high[1:]) >= span[0]
    first = int(begun.argmax()) if begun.any() else len(begun)
    unended = (np.minimum(low[1:] - elapsed_us, low[:-1]) <= span[1]) | (at_us[:-1] <= gone_us)
    last = len(unended) - int(unended[::-1].argmax()) if unended.any() else 0
    return slice(first, max(first, last) + 1)


def _gone_us(lives: Sequence[Mapping[str, Any]]) -> int:
    """Return when the last client was gone that did not stop by order, by the clock of the drive; `NONE` if all did.

    `NEVER_US` if that is unknown of one of them: its worker was lost, or the drive ended before.
    """
    gone_us: dict[tuple[str, int], int] = {}
    for row in lives:
        life = row["client"], row["incarnation"]
        if row["event"] == "stopped":
            gone_us[life] = NONE
        elif row["event"] == "crashed" and json.loads(row["detail"]).get("exit_code") is not None:
            gone_us.setdefault(life, row["at_us"])
    return max((gone_us.get((row["client"], row["incarnation"]), NEVER_US) for row in lives), default=NONE)
