"""What a miniature run may have besides: transactions around its sends, and an observer of it."""

from __future__ import annotations

import json
import random
from collections import defaultdict

from tests.checks.audit.histories import OUT, TOPIC
from tests.checks.audit.oracle import Row
from tests.checks.audit.story import TOKEN

Rows = dict[str, list[Row]]
SECOND = 1_000_000


def transact(rng: random.Random, rows: Rows, hide: bool) -> None:
    """Put each producer's sends into transactions. hide: nobody was given what was aborted or left open."""
    lives: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for send in rows.get("sends", []):
        lives[send["producer"], send["incarnation"]].append(send)
    hidden: set[tuple[int, int]] = set()
    for (producer, incarnation), sends in lives.items():
        sends.sort(key=lambda s: s["invoked_us"])
        number = 0
        while sends:
            number += 1
            together = [sends.pop(0) for _ in range(min(len(sends), rng.randint(1, 4)))]
            outcome = rng.choice(["committed", "committed", "aborted", "unknown", "cut off"])
            seen = outcome == "committed" or (outcome in ("unknown", "cut off") and rng.random() < 0.5)
            for send in together:
                send["txn"] = number
                for record in rows["log"]:
                    if all(record[n] == send[n] for n in ("producer", "incarnation", "seq")):
                        record["committed"] = seen
                        hidden |= set() if seen else {(record["partition"], record["offset"])}
            times = {"began_us": together[0]["invoked_us"] - 1}
            times["ended_us"] = max(s["completed_us"] for s in together) + rng.randint(1, 500)
            first = max(s["invoked_us"] for s in together)
            times["requested_us"] = rng.choice([None, first, rng.randint(first, times["ended_us"]), times["ended_us"]])
            row = {"producer": producer, "incarnation": incarnation, "txn": number, "outcome": outcome}
            if outcome != "cut off":
                rows["transactions"].append(row | times)
    if hide:
        rows["deliveries"] = [r for r in rows["deliveries"] if (r["partition"], r["offset"]) not in hidden]


def watch(rng: random.Random, rows: Rows, partitions: int, group: str | None) -> None:
    """What an observer saw after the run: stable offsets, the group's coordinator and its members."""
    now = 1 + max((r["at_us"] for r in rows.get("lifecycle", [])), default=0)

    def see(entity: str, key: str, value: object) -> None:
        rows["cluster"].append({"at_us": now, "entity": entity, "key": key, "value": json.dumps(value)})

    for _ in range(rng.randint(1, 4)):
        number = rng.randrange(partitions)
        end = rng.randint(0, 3)
        see(f"{TOPIC}/{number}", "end_offset", end)
        see(f"{TOPIC}/{number}", "last_stable_offset", end - rng.choice([0, 0, 0, 1]))
        if rng.random() < 0.2:
            see(f"{TOPIC}/{number}", "offsets_answer", rng.random() < 0.5)
        if group:
            see(f"group:{group}", "coordinator", rng.choice([1, 1, 1, 2]))
            if rng.random() < 0.3:
                see(f"group:{group}", "late", rng.random() < 0.5)
            see(f"group:{group}", "state", rng.choice(["Stable", "Stable", "Empty"]))
            held = [rng.randrange(2) for _ in range(partitions)]
            subscribed = [{"topics": [TOPIC]}, {}][rng.random() < 0.5]
            members = [
                {
                    "member_id": f"m{m}",
                    "client_id": rng.choice(["c/1", "d/1"]),
                    "partitions": [f"{TOPIC}/{n}" for n, holder in enumerate(held) if holder == m],
                }
                | subscribed
                for m in range(rng.choice([2, 2, 3]))
            ]
            see(f"group:{group}", "members", members)
        now += rng.choice([SECOND, 3 * SECOND, 12 * SECOND])
    for number in range(partitions):
        if rng.random() < 0.9:
            see(f"{TOPIC}/{number}", "end_offset", 5)
            see(f"{TOPIC}/{number}", "last_stable_offset", 5)
    if group:
        see(f"group:{group}", "coordinator", rng.choice([1, 1, 1, 2]))
        see(f"group:{group}", "state", "Dead")


def process(rng: random.Random, rows: Rows, counts: bool) -> None:
    """Write an output of each record that the group delivered, now and then hidden, undecided, or left out.

    Now and then one carries no coordinates, or the first one was removed from the log. counts: records have keys, and
    each output carries a count of its key: all records of the log there, or now and then another number.
    """
    inputs = {(r["partition"], r["offset"]): r for r in rows["log"]}
    for record in inputs.values() if counts else ():
        record["key"] = rng.choice(["k1", "k2", None])
    for row in [r for r in rows["deliveries"] if r["mode"] == "subscribe"]:
        if rng.random() < 0.05:
            continue
        offset = sum(r["topic"] == OUT for r in rows["log"])
        who = {"producer": row["consumer"], "incarnation": row["incarnation"], "seq": offset}
        place = {"topic": OUT, "partition": 0, "offset": offset}
        source = {"input_topic": row["topic"], "input_partition": row["partition"], "input_offset": row["offset"]}
        times = {"invoked_us": row["processed_us"], "completed_us": row["processed_us"] + 1}
        rows["sends"].append({**who, **place, **source, **times, "outcome": "ok"})
        seen = rng.choice([True] * 12 + [False, None])
        record = {"timestamp_us": row["processed_us"], "run": TOKEN, "crc_ok": True, "committed": seen}
        counted = _counted(rng, inputs, row) if counts else {}
        rows["log"].append({**who, **place, **source, **record, **counted})
    outputs = [r for r in rows["log"] if r["topic"] == OUT]
    if outputs and rng.random() < 0.1:
        rng.choice(outputs)[rng.choice(["input_topic", "input_partition", "input_offset"])] = None
    start = 1 if outputs and rng.random() < 0.1 else 0
    rows["log"] = [r for r in rows["log"] if r["topic"] != OUT or r["offset"] >= start]
    rows["log_range"].append({"topic": OUT, "partition": 0, "start": start, "end": len(outputs)})


def _counted(rng: random.Random, inputs: dict[tuple[int, int], Row], delivery: Row) -> Row:
    """The key and the count of an output."""
    record = inputs.get((delivery["partition"], delivery["offset"]))
    key = record["key"] if record else "k1"
    before = [r for r in inputs.values() if r["partition"] == delivery["partition"] and r["key"] == key]
    count = sum(r["offset"] <= delivery["offset"] and r["committed"] is not False for r in before)
    return {"key": rng.choice([key] * 9 + ["k2"]), "count": rng.choice([count] * 4 + [count + 1, None])}
