"""A share group beside everything else that happens in a generated history."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from tests.checks.audit.oracle import Row

GROUP = "h"
Rows = dict[str, list[Row]]


class Sharing:
    """What a share group does with the records of a history."""

    def __init__(self, rng: random.Random, rows: Rows) -> None:
        self.rng, self.rows = rng, rows
        self.members = [f"h/{n + 1}" for n in range(rng.randint(1, 3))]
        self.settings: dict[str, Any] = {
            "share.auto.offset.reset": rng.choice(["earliest", "earliest", "latest"]),
            "share.isolation.level": rng.choice(["read_uncommitted", "read_committed"]),
            "share.record.lock.duration.ms": rng.choice([5, 50, 10**9]),
            "share.delivery.count.limit": rng.choice([2, 3, 5]),
        }
        self.ordinals: Counter[str] = Counter()
        self.last_us = 1

    def entry(self) -> dict[str, Any]:
        """The entry of the scenario."""
        entry = {"mode": "share", "name": "h", "group": GROUP, "members": len(self.members), "client": "java"}
        return entry | {"settings": self.settings}

    def carry_out(self) -> None:
        for record in [r for r in self.rows["log"] if r["topic"] == "t"]:
            if self.rng.random() < 0.93:
                self._deliver(record)
        for partition in sorted({r["partition"] for r in self.rows["log_range"]}):
            self._observe(partition)
        for member in self.members:
            events = ["started", self.rng.choice(["stopped", "stopped", "stopped", "crashed"])]
            for at_us, event in zip((1, self.rng.choice([self.last_us + 1, self.last_us // 2])), events, strict=True):
                row = {"client": member, "role": "consumer", "incarnation": 1, "event": event, "detail": "{}"}
                self.rows["lifecycle"].append(row | {"at_us": at_us})

    def _deliver(self, record: Row) -> None:
        """Several deliveries of one record; each but the last ends with a release, or with its lock."""
        times, lock_us = self.rng.choice([1, 1, 1, 2, 3]), 1000 * self.settings["share.record.lock.duration.ms"]
        at_us = record["timestamp_us"]
        sent_us = self.rng.choice([at_us, at_us - 1, None]) if record["seq"] is None else at_us
        for n in range(times):
            at_us += self.rng.choice([1, 500, 20_000])
            row = self._acquire(record, n + 1, at_us, sent_us)
            if self.rng.random() < 0.02:  # two locks at once
                self._acquire(record, n + 2, at_us + self.rng.choice([0, 1, 400]), sent_us)
            if n == times - 1:
                end = self.rng.choice(["accept"] * 6 + ["reject", "release", "unknown", "none"])
            else:
                end = self.rng.choice(["release", "release", "expired", "late"])
            at_us += lock_us if end in ("expired", "late") else 1
            if end in ("accept", "reject", "release", "unknown", "late"):
                kind = end if end in ("accept", "reject", "release") else "accept"
                self._acknowledge(row, kind, end, at_us + self.rng.choice([0, 1, 700]))
                at_us += 701

    def _acquire(self, record: Row, count: int, at_us: int, sent_us: int | None) -> Row:
        member = self.rng.choice(self.members)
        row = {"consumer": member, "incarnation": 1, "group": GROUP, "ordinal": self.ordinals[member]}
        row |= {name: record[name] for name in ("topic", "partition", "offset", "producer", "seq")}
        row |= {"producer_incarnation": record["incarnation"], "delivery_count": count}
        row |= {"sent_us": sent_us, "acquired_us": at_us}
        self.ordinals[member] += 1
        self.last_us = max(self.last_us, at_us)
        self.rows["acquisitions"].append(row)
        return row

    def _acknowledge(self, acquired: Row, kind: str, end: str, at_us: int) -> None:
        row = {name: acquired[name] for name in ("consumer", "incarnation", "group", "ordinal", "topic")}
        row |= {"partition": acquired["partition"], "offset": acquired["offset"], "type": kind}
        unknown = self.rng.choice(["TIMEOUT", "NOT_LEADER_OR_FOLLOWER"])
        error = {"late": "INVALID_RECORD_STATE", "unknown": unknown}.get(end)
        row |= {"outcome": "unknown" if error else "ok", "error": error}
        self.rows["acknowledgements"].append(row | {"requested_us": at_us, "completed_us": at_us + 1})
        self.last_us = max(self.last_us, at_us + 1)

    def _observe(self, partition: int) -> None:
        entity = f"group:{GROUP}/t/{partition}"
        offsets = [r["offset"] for r in self.rows["log"] if (r["topic"], r["partition"]) == ("t", partition)]
        start = max(offsets, default=0) + self.rng.choice([1, 1, 1, -1])
        for key, value in (("share_start", max(start, 0)), ("share_lag", self.rng.choice([0, 0, 1, None]))):
            if value is not None and self.rng.random() < 0.9:
                row = {"at_us": self.last_us + 1, "entity": entity, "key": key, "value": str(value)}
                self.rows["cluster"].append(row)
