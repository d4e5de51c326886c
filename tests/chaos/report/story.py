"""Tables of a one-minute run: a leader dies, a coordinator dies, a slow consumer is evicted."""

from __future__ import annotations

import json
import math
import random
from typing import Any

from chaos.run.result import FaultOutcome, Finding

BEGAN = 1_770_127_392_250_000
SECONDS = 62
PARTITIONS = 6
DROPPED = (
    "acked by broker 2 in leader epoch 3 (acks=1) and cut off when broker 1 became leader in epoch 4 after fault kill"
)
AGAIN = (
    "billing/1 began at 9120: the committed offset; billing/2 had processed to 9220 and committed 9120 "
    "when its epoch ended (lost)"
)


def at(seconds: float) -> int:
    """Return a time of the run in us since the epoch."""
    return BEGAN + round(seconds * 1e6)


class Story:
    """The events of the failed run, second by second; with `calm`, of the same run without a fault."""

    def __init__(self, calm: bool = False) -> None:
        self.random = random.Random(7)
        self.kill, self.elected, self.back = (14.2, 16.9, 23.2) if not calm else (99.0, 99.0, 99.0)
        self.coordinator, self.moved, self.returned = (28.3, 31.0, 34.3) if not calm else (99.0, 99.0, 99.0)
        self.slow, self.evicted, self.fast = (36.3, 42.6, 44.3) if not calm else (99.0, 99.0, 99.0)

    def cluster(self) -> list[dict[str, Any]]:
        rows: list[tuple[float, str, str, Any]] = []
        for p in range(PARTITIONS):
            leader = (p + 1) % 3 + 1
            name = f"orders/{p}"
            rows += [(2.0, name, "leader", leader), (2.0, name, "isr", [1, 2, 3]), (2.1, name, "leader_epoch", 3)]
            for dead, down, up, home in (
                (2, self.kill, self.elected, self.back),
                (3, self.coordinator, self.moved, self.returned),
            ):
                if down > SECONDS:
                    continue
                rest = [b for b in (1, 2, 3) if b != dead]
                if leader == dead:
                    rows += [(down + 0.3, name, "leader", -1)]
                    rows += [
                        (up + 0.1 * p, name, "leader", rest[p % 2]),
                        (up + 0.1 * p, name, "leader_epoch", 4 if dead == 2 else 5),
                    ]
                    leader = rest[p % 2]
                rows += [(up + 0.2, name, "isr", rest), (home + 2 + 0.2 * p, name, "isr", [1, 2, 3])]
        for group, broker in (("billing", 3), ("ledger", 1)):
            rows += [
                (2.2, f"group:{group}", "coordinator", broker),
                (2.2, f"group:{group}", "state", "PREPARING_REBALANCING"),
            ]
            rows += [(3.4, f"group:{group}", "state", "STABLE")]
        if self.coordinator < SECONDS:
            rows += [
                (self.coordinator + 0.4, "group:billing", "answers", False),
                (self.moved, "group:billing", "answers", True),
            ]
            rows += [(self.moved, "group:billing", "coordinator", 1)]
        rows.sort(key=lambda row: row[0])
        return [{"at_us": at(t), "entity": e, "key": k, "value": json.dumps(v)} for t, e, k, v in rows]

    def ownership(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []

        def grant(
            group: str, generation: int, begin: float, end: float | None, members: list[int], reason: str | None
        ) -> None:
            for p in range(PARTITIONS):
                member = members[p * len(members) // PARTITIONS]
                rows.append(
                    {
                        "group": group,
                        "topic": "orders",
                        "partition": p,
                        "consumer": f"{group}/{member}",
                        "incarnation": 1,
                        "member_id": f"{group}-{member}-7c1e",
                        "generation": generation,
                        "begin_us": at(begin + 0.03 * member),
                        "end_us": None if end is None else at(end),
                        "end_reason": reason,
                    }
                )

        if self.slow > SECONDS:
            grant("billing", 1, 3.4, 58, [1, 2, 3], "stopped")
        else:
            grant("billing", 1, 3.4, self.moved + 0.3, [1, 2, 3], "lost")
            grant("billing", 2, self.moved + 1.9, self.evicted, [1, 2, 3], "revoked")
            grant("billing", 3, self.evicted + 1.6, 47.0, [1, 3], "revoked")
            grant("billing", 4, 48.1, 58, [1, 2, 3], "stopped")
        grant("ledger", 1, 3.1, 58, [1, 2], "stopped")
        for member in (1, 2):
            for p in range(PARTITIONS):
                rows.append(
                    {
                        "group": "replay",
                        "topic": "orders",
                        "partition": p,
                        "consumer": f"replay/{member}",
                        "incarnation": 1,
                    }
                    | {
                        "member_id": "",
                        "generation": None,
                        "begin_us": at(2.6),
                        "end_us": at(58),
                        "end_reason": "stopped",
                    }
                )
        return rows

    def series(self) -> list[dict[str, Any]]:
        rows = []
        lag = dict.fromkeys(("billing", "ledger", "replay/1", "replay/2"), 0.0)
        for i in range(int(SECONDS * 4)):
            t = i / 4
            acked = 0.0
            if 3 <= t < 53:
                down = self.kill + 0.2 <= t < self.elected or self.coordinator + 0.2 <= t < self.moved - 1
                acked = 2000 / 4 * (0.62 if down else 1) * self.random.uniform(0.93, 1.06)
                if self.elected <= t < self.elected + 1.5:
                    acked *= 1.9
            rows.append({"series": "acked", "scope": "orders", "t": t, "value": acked})
            for reader in lag:
                open_ = 3.4 <= t < 58
                if reader == "billing" and any(a <= t < b for a, b in self._holes()):
                    open_ = False
                rate = 3400 / 4 if open_ else 0.0
                if reader == "billing" and self.slow <= t < self.evicted:
                    rate *= 0.42
                delivered = min(rate * self.random.uniform(0.9, 1.1), lag[reader] + acked)
                lag[reader] += acked - delivered
                rows.append({"series": "delivered", "scope": reader, "t": t, "value": delivered})
                rows.append({"series": "lag", "scope": reader, "t": t, "value": float(round(lag[reader]))})
        return [{"at_us": at(r.pop("t")), **r} for r in rows if r["value"] or r["series"] == "lag"]

    def _holes(self) -> list[tuple[float, float]]:
        return [(self.moved + 0.3, self.moved + 1.9), (self.evicted, self.evicted + 1.6), (47.0, 48.1)]

    def latency(self) -> list[dict[str, Any]]:
        counted: dict[tuple[int, str, str, int], int] = {}
        for i in range(3 * 4, 53 * 4):
            t = i / 4
            for series, scope, usual in (
                ("ack", "orders", 2_500),
                ("end_to_end", "billing", 9_000),
                ("end_to_end", "ledger", 7_000),
            ):
                waits = max(
                    (b - t for a, b in ((self.kill, self.elected), (self.coordinator, self.moved)) if a <= t < b),
                    default=0.0,
                )
                if scope == "billing":
                    waits = max([waits, *(b - t for a, b in self._holes() if a <= t < b)])
                    waits += 3.5 if self.slow <= t < self.evicted else 0
                for _ in range(120):
                    us = usual * math.exp(self.random.gauss(0, 0.45))
                    if waits and self.random.random() < 0.35:
                        us += waits * 1e6 * self.random.uniform(0.5, 1)
                    edge = round(10 ** (math.floor(math.log10(us) * 10) / 10))
                    key = (at(t), series, scope, edge)
                    counted[key] = counted.get(key, 0) + 4
        return [
            {"at_us": k[0], "series": k[1], "scope": k[2], "bin_us": k[3], "count": n}
            for k, n in sorted(counted.items())
        ]

    def faults(self) -> list[FaultOutcome]:
        return [
            FaultOutcome(
                name="kill",
                kind="broker.kill",
                trigger="at 24,000 acknowledged records",
                target="leader of orders/0",
                resolved="broker 2",
                injected_us=at(self.kill),
                proven_us=at(self.elected),
                healed_us=at(self.back),
                proof="orders/0 is led by broker 1 in epoch 4, before it was broker 2 in epoch 3",
                produce_unavailability_us=2_910_000,
                consume_unavailability_us=3_240_000,
            ),
            FaultOutcome(
                name="coordinator",
                kind="coordinator.kill",
                trigger="after kill.healed + 5s",
                target="coordinator of billing",
                resolved="broker 3",
                injected_us=at(self.coordinator),
                proven_us=at(self.moved),
                healed_us=at(self.returned),
                proof="the coordinator of billing is broker 1, before it was broker 3",
                produce_unavailability_us=1_640_000,
                consume_unavailability_us=4_120_000,
            ),
            FaultOutcome(
                name="slow",
                kind="consumer.slow",
                trigger="after coordinator.healed + 2s",
                target="member billing/2",
                resolved="billing/2",
                injected_us=at(self.slow),
                proven_us=at(self.evicted),
                healed_us=at(self.fast),
                proof="billing/2 left group billing, orders/2, orders/3 moved to billing/1",
                consume_unavailability_us=7_900_000,
            ),
        ]

    def findings(self) -> list[Finding]:
        lost = [
            Finding(
                check="lost_write",
                scope="orders",
                topic="orders",
                partition=3 * (i % 2),
                offset=4211 + i // 2,
                producer=f"shop/{i % 2 + 1}",
                incarnation=1,
                seq=11_902 + 3 * i,
                at_us=at(self.kill - 0.30 + i * 0.008),
                evidence={
                    "acked_us": at(self.kill - 0.298 + i * 0.008),
                    "leader": 2,
                    "leader_epoch": 3,
                    "next_leader": 1,
                    "isr": [1, 2, 3],
                },
                mechanism=DROPPED,
            )
            for i in range(37)
        ]
        again = [
            Finding(
                check="duplicate_delivery",
                split="legal",
                scope="billing",
                topic="orders",
                partition=2 + i % 2,
                offset=9_120 + i // 2,
                producer="shop/1",
                incarnation=1,
                seq=27_000 + i,
                consumer="billing/1",
                at_us=at(self.evicted + 1.7 + i * 0.002),
                evidence={"first_by": "billing/2", "resumed_at": 9_120, "committed": 9_120, "gap_us": 2_310_000},
                mechanism=AGAIN,
            )
            for i in range(200)
        ]
        return lost + again
