"""Anomalies of every kind, planted into the ledger of a run: each where it finds a row that suits it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from tests.checks.audit.oracle import Row

Rows = dict[str, list[Row]]
Plant = Callable[[random.Random, Rows], None]
PLANTED: dict[str, Plant] = {}


def planted(plant: Plant) -> Plant:
    PLANTED[plant.__name__] = plant
    return plant


def _one(rng: random.Random, rows: Rows, table: str, **columns: object) -> Row | None:
    fitting = [r for r in rows.get(table, []) if all(r.get(name) == value for name, value in columns.items())]
    return rng.choice(fitting) if fitting else None


def _end(rows: Rows, row: Row) -> int:
    return max([r["offset"] for r in rows["log"] if r["partition"] == row["partition"]], default=-1) + 1


@planted
def lost_write(rng: random.Random, rows: Rows) -> None:
    if record := _one(rng, rows, "log"):
        rows["log"].remove(record)


@planted
def lost_key(rng: random.Random, rows: Rows) -> None:
    """The last record of a key, in whatever topic."""
    if record := _one(rng, rows, "log"):
        of_key = [r for r in rows["log"] if all(r[n] == record.get(n) for n in ("partition", "key") if n in r)]
        rows["log"].remove(max(of_key, key=lambda r: r["offset"]))


@planted
def resurrected_key(rng: random.Random, rows: Rows) -> None:
    """A tombstone and what came after it are gone, in whatever topic; something before it may be left."""
    if record := _one(rng, rows, "log", tombstone=True):
        of_key = [r for r in rows["log"] if all(r[n] == record[n] for n in ("topic", "partition", "key"))]
        for gone in (r for r in of_key if r["offset"] >= record["offset"]):
            rows["log"].remove(gone)


@planted
def read_back_at_some_time(rng: random.Random, rows: Rows) -> None:
    for place in rows["log_range"]:
        read_us = place.get("read_us")
        place["read_us"] = rng.choice([None, read_us, (read_us or 0) + rng.randint(0, 300_000)])
        began_us = (place["read_us"] or read_us or 0) - rng.choice([0, 1_000, rng.randint(0, 90_000)])
        place["read_from_us"] = rng.choice([None, began_us, began_us, began_us])


@planted
def overdue_record(rng: random.Random, rows: Rows) -> None:
    """The log was read back when a week was over, which is the default of retention."""
    if place := _one(rng, rows, "log_range"):
        week_us = 7 * 86_400_000_000 + rng.choice([0, 400_000_000, 500_000_000])
        place["read_from_us"] = place["read_us"] = week_us + (place.get("read_us") or 0)


@planted
def key_not_read(rng: random.Random, rows: Rows) -> None:
    """A ledger of an older version has no keys of the log."""
    if rng.random() < 0.3:
        for record in rows.get("log", []):
            record["key"] = record["tombstone"] = None


@planted
def duplicate_write(rng: random.Random, rows: Rows) -> None:
    if record := _one(rng, rows, "log"):
        rows["log"].append(
            record | {"offset": _end(rows, record), "timestamp_us": record["timestamp_us"] + rng.choice([0, 5])}
        )


@planted
def reordered_write(rng: random.Random, rows: Rows) -> None:
    if record := _one(rng, rows, "log"):
        other = _one(rng, rows, "log", producer=record["producer"], partition=record["partition"])
        if other:
            record["seq"], other["seq"] = other["seq"], record["seq"]


@planted
def backdated_write(rng: random.Random, rows: Rows) -> None:
    """A record is sent again later than another one was acknowledged, or later than it was delivered."""
    if (row := _one(rng, rows, "deliveries")) and rng.random() < 0.4:
        row["sent_us"] = (row["polled_us"] or row["processed_us"]) + rng.choice([-1, 0, 1, 9_000])
    elif (send := _one(rng, rows, "sends", outcome="ok")) and (other := _one(rng, rows, "sends", outcome="ok")):
        late_us = other["completed_us"] + rng.choice([-1, 0, 1, 9_000]) - send["invoked_us"]
        for time in ("invoked_us", "completed_us"):
            send[time] += late_us


@planted
def misplaced_write(rng: random.Random, rows: Rows) -> None:
    send = _one(rng, rows, "sends", outcome="ok")
    if send and send["offset"] is not None:
        send["offset"] = abs(send["offset"] + rng.choice([1, -1, 7]))


@planted
def phantom_write(rng: random.Random, rows: Rows) -> None:
    record = _one(rng, rows, "log")
    if record is None:
        return
    kinds: list[Row] = [
        {"run": "00000000"},
        {"run": None, "producer": None, "incarnation": None, "seq": None, "crc_ok": None},
        {"seq": 999},
        {"incarnation": 9},
    ]
    rows["log"].append(record | {"offset": _end(rows, record)} | rng.choice(kinds))


@planted
def corrupt_record(rng: random.Random, rows: Rows) -> None:
    if record := _one(rng, rows, "log"):
        record["crc_ok"] = False


@planted
def returned_record(rng: random.Random, rows: Rows) -> None:
    """A fault deleted records of a partition, and some are there."""
    if record := _one(rng, rows, "log"):
        below = {f"t/{record['partition']}": record["offset"] + rng.choice([0, 1, 1])}
        at_us = record["timestamp_us"] + rng.choice([0, 1, 1, 5_000])
        fault = {"fault": "cut", "kind": "topic.delete_records", "target": "topic t", "at_us": at_us}
        phase = rng.choice(["injected", "proven", "proven", "proven"])
        rows["faults"].append(fault | {"phase": phase, "evidence": json.dumps({"log_starts": below})})


@planted
def skipped_delivery(rng: random.Random, rows: Rows) -> None:
    if row := _one(rng, rows, "deliveries"):
        same = ("offset", "partition", "group", "mode")
        rows["deliveries"] = [r for r in rows["deliveries"] if any(r[name] != row[name] for name in same)]


@planted
def poll_skip(rng: random.Random, rows: Rows) -> None:
    if row := _one(rng, rows, "deliveries"):
        rows["deliveries"].remove(row)


@planted
def stalled_delivery(rng: random.Random, rows: Rows) -> None:
    if row := _one(rng, rows, "deliveries"):
        for table, column in (("deliveries", "processed_us"), ("commits", "requested_us")):
            rows[table] = [r for r in rows.get(table, []) if r[column] < row["processed_us"]]


@planted
def duplicate_delivery(rng: random.Random, rows: Rows) -> None:
    if row := _one(rng, rows, "deliveries"):
        last = max(r["ordinal"] for r in rows["deliveries"])
        later = {"ordinal": last + 1, "processed_us": row["processed_us"] + rng.randint(1, 9_000)}
        rows["deliveries"].append(row | later)


@planted
def dirty_read(rng: random.Random, rows: Rows) -> None:
    if row := _one(rng, rows, "deliveries"):
        row |= rng.choice([{"seq": 998}, {"offset": row["offset"] + 50}, {"producer": "p/2"}])


@planted
def lost_processing(rng: random.Random, rows: Rows) -> None:
    """The last delivery before a commit never happened."""
    commit = _one(rng, rows, "commits", outcome="ok")
    if commit is None:
        return
    last = {"offset": commit["offset"] - 1, "partition": commit["partition"], "group": commit["group"]}
    rows["deliveries"] = [r for r in rows["deliveries"] if any(r[name] != value for name, value in last.items())]


@planted
def overcommit(rng: random.Random, rows: Rows) -> None:
    if commit := _one(rng, rows, "commits", outcome="ok"):
        commit["offset"] += rng.randint(1, 4)


@planted
def commit_rewind(rng: random.Random, rows: Rows) -> None:
    if commit := _one(rng, rows, "commits", outcome="ok"):
        later = {"offset": max(0, commit["offset"] - rng.randint(1, 3))}
        later |= {name: commit[name] + rng.randint(0, 3_000) for name in ("requested_us", "completed_us")}
        if later["requested_us"] <= later["completed_us"]:
            rows["commits"].append(commit | later)


@planted
def double_ownership(rng: random.Random, rows: Rows) -> None:
    if row := _one(rng, rows, "assignments", event="assigned", mode="subscribe"):
        other = {"consumer": "c/3", "assignment": 50, "at_us": row["at_us"] + rng.randint(1, 5_000)}
        rows["assignments"].append(row | other)


@planted
def foreign_commit(rng: random.Random, rows: Rows) -> None:
    """An assign consumer commits to a group just before one of its readers begins there."""
    row = _one(rng, rows, "assignments", event="assigned", source="committed")
    if row is None:
        return
    row["position"] = max(0, row["position"] + rng.choice([-1, 0, 1])) if row["position"] is not None else None
    stranger = {name: row[name] for name in ("group", "topic", "partition")} | {"offset": row["position"] or 0}
    stranger |= {"consumer": "a/2", "incarnation": 1, "mode": "assign", "assignment": 1, "kind": "sync"}
    times = {"requested_us": row["at_us"] - rng.randint(2, 900), "completed_us": row["at_us"] - 1}
    rows.setdefault("commits", []).append(stranger | times | {"outcome": rng.choice(["ok", "ok", "unknown"])})


@planted
def unlawful_start(rng: random.Random, rows: Rows) -> None:
    row = _one(rng, rows, "assignments", event="assigned")
    if row and row["position"] is not None:
        row["position"] = max(0, row["position"] + rng.choice([-2, -1, 1, 2]))


@planted
def commit_without_row(rng: random.Random, rows: Rows) -> None:
    if commit := _one(rng, rows, "commits"):
        rows["commits"].remove(commit)


@planted
def not_read_back(rng: random.Random, rows: Rows) -> None:
    if len(rows["log_range"]) > 1:
        place = rng.choice(rows["log_range"])
        rows["log_range"].remove(place)


@planted
def same_moment(rng: random.Random, rows: Rows) -> None:
    """Two things that were a step apart happened in the same microsecond."""
    table, column = rng.choice([("commits", "requested_us"), ("deliveries", "processed_us"), ("assignments", "at_us")])
    if row := _one(rng, rows, table):
        commit = _one(rng, rows, "commits")
        row[column] = min(commit["completed_us"], row.get("completed_us", 1 << 60)) if commit else row[column]


@planted
def resurrected_write(rng: random.Random, rows: Rows) -> None:
    if send := _one(rng, rows, "sends"):
        send["outcome"] = "fail"


@planted
def offset_reuse(rng: random.Random, rows: Rows) -> None:
    if send := _one(rng, rows, "sends", outcome="ok"):
        rows["sends"].append(send | {"seq": 997, "completed_us": send["completed_us"] + rng.randint(0, 2_000)})


@planted
def torn_transaction(rng: random.Random, rows: Rows) -> None:
    if record := _one(rng, rows, "log"):
        record["committed"] = rng.choice([True, False, None])


@planted
def late_produce(rng: random.Random, rows: Rows) -> None:
    """A record of an aborted transaction is written after the abort, and perhaps committed with the next one."""
    aborted = {(t["producer"], t["incarnation"], t["txn"]) for t in rows["transactions"] if t["outcome"] == "aborted"}
    sends = [s for s in rows["sends"] if (s["producer"], s["incarnation"], s.get("txn")) in aborted]
    if sends:
        send = rng.choice(sends)
        send |= {"outcome": "unknown", "offset": rng.choice([None, send["offset"]])}
        for record in rows["log"]:
            if (record["producer"], record["seq"]) == (send["producer"], send["seq"]):
                record["committed"] = rng.choice([True, True, False, None])


@planted
def precommitted_read(rng: random.Random, rows: Rows) -> None:
    if row := _one(rng, rows, "deliveries"):
        row["polled_us"] -= rng.choice([10, 1_500, 9_000])


@planted
def evicted_delivery(rng: random.Random, rows: Rows) -> None:
    """The log is cut off at some offset, and perhaps a delivery of a record below it is missing."""
    place = _one(rng, rows, "log_range")
    if place is None:
        return
    place["start"] = min(place["end"], place["start"] + rng.randint(1, 3))
    here = [r for r in rows["log"] if r["partition"] == place["partition"] and r["offset"] < place["start"]]
    rows["log"] = [r for r in rows["log"] if not any(r is gone for gone in here)]
    if here and rng.random() < 0.6:
        gone = rng.choice(here)["offset"], place["partition"]
        rows["deliveries"] = [r for r in rows["deliveries"] if (r["offset"], r["partition"]) != gone]


@planted
def static_members(rng: random.Random, rows: Rows) -> None:
    """Members have a group.instance.id, or all have the same; the next process often joins a generation again."""
    mine = [r for r in rows.get("assignments", []) if r["mode"] == "subscribe"]
    shared = rng.random() < 0.3
    for row in mine:
        row["instance_id"] = "i" if shared else f"i-{row['consumer']}"
    for consumer in sorted({r["consumer"] for r in mine}):
        of_consumer = [r for r in mine if r["consumer"] == consumer and r["generation"] is not None]
        for incarnation in sorted({r["incarnation"] for r in of_consumer}):
            former = [r["generation"] for r in of_consumer if r["incarnation"] < incarnation]
            if former and rng.random() < 0.7:
                generation = max(former) + rng.choice([-1, 0, 0, 0, 1])
                for row in of_consumer:
                    if row["incarnation"] == incarnation:
                        row["generation"] = generation


@planted
def output_of_another_input(rng: random.Random, rows: Rows) -> None:
    """An output names another input: one has none then, and one has two, or was not committed."""
    outputs = [r for r in rows["log"] if r.get("input_topic") and r["input_offset"] is not None]
    if outputs:
        output = rng.choice(outputs)
        output["input_offset"] = max(0, output["input_offset"] + rng.choice([-1, 1, 50]))


@planted
def count_of_another_input(rng: random.Random, rows: Rows) -> None:
    """An output carries another count: an input was counted twice, or not."""
    if outputs := [r for r in rows["log"] if r.get("count")]:
        rng.choice(outputs)["count"] += rng.choice([-1, 1, 7])


@planted
def zombie_commit(rng: random.Random, rows: Rows) -> None:
    """A member commits once more when another one has just begun, or is about to."""
    taken = [
        (commit, r["at_us"])
        for commit in rows.get("commits", [])
        for r in rows.get("assignments", [])
        if commit["outcome"] == "ok" and commit["mode"] == r["mode"] == "subscribe" and r["event"] == "assigned"
        if r["partition"] == commit["partition"] and r["consumer"] != commit["consumer"]
    ]
    if taken := [(commit, at_us) for commit, at_us in taken if at_us > commit["requested_us"]] or taken:
        commit, begun_us = rng.choice(taken)
        at_us = begun_us + rng.choice([-1, 0, 1, 500, 500, 500])
        kind = rng.choice([commit["kind"], "sync", "sync"])  # an automatic one was made before its row says so
        times = {"requested_us": at_us, "completed_us": at_us + rng.randint(0, 900)}
        rows["commits"].append(commit | times | {"kind": kind})


@planted
def partition_added(rng: random.Random, rows: Rows) -> None:
    """The observer first sees a partition some time after the first assignment of all."""
    begun = [r["at_us"] for r in rows.get("assignments", [])]
    place = _one(rng, rows, "log_range")
    if not begun or place is None:
        return
    entity = f"{place['topic']}/{place['partition']}"
    rows["cluster"] = [r for r in rows.get("cluster", []) if (r["entity"], r["key"]) != (entity, "leader")]
    at_us = min(begun) + rng.choice([1_000_000, 3_000_000, 3_000_001, 9_000_000])
    rows["cluster"].append({"at_us": at_us, "entity": entity, "key": "leader", "value": "1"})


@planted
def offsets_moved(rng: random.Random, rows: Rows) -> None:
    """A fault moves a group's offset some time before one of its readers begins, there or elsewhere."""
    begun = [r for r in rows.get("assignments", []) if r["event"] == "assigned" and r["group"] is not None]
    if not begun:
        return
    row = rng.choice(begun)
    kind, offset = rng.choice(["delete", "delete_offsets", "reset_offsets"]), None
    if kind == "reset_offsets":
        offset = rng.randint(0, max(1, row["position"] or 0))
    evidence = {"offsets": {f"{row['topic']}/{row['partition']}": offset}}
    at_us = row["at_us"] - rng.choice([-1, 1, 500, 3_000])
    fault = {"fault": "m", "kind": f"group.{kind}", "target": f"group {row['group']}"}
    phases = rng.choice([("injecting", "injected"), ("injecting", "injected"), ("injecting", "failed"), ("injecting",)])
    for phase in phases:
        recorded = json.dumps(evidence if phase != "injecting" else {})
        rows["faults"].append(fault | {"phase": phase, "evidence": recorded, "at_us": at_us})
        at_us += rng.choice([0, 1, 400])
    if rng.random() < 0.6 and row["position"] is not None:
        row |= {"position": 0, "source": "reset"} if offset is None else {"position": offset, "source": "committed"}


@planted
def offset_lost(rng: random.Random, rows: Rows) -> None:
    """A group's offset is gone, or lower, when one of its readers begins, after a pause or without the coordinator."""
    begun = [r for r in rows.get("assignments", []) if r["event"] == "assigned" and r["group"] is not None]
    if not begun:
        return
    row = rng.choice(begun)
    group = f"group:{row['group']}"
    entity = f"{group}/{row['topic']}/{row['partition']}"
    gone_us = row["at_us"] - rng.choice([-1, 1, 500])
    long = rng.random() < 0.6
    seen: list[tuple[int, str, str, object]] = [
        (gone_us - (604_800_000_000 if long else 3_000), entity, "committed", rng.randint(0, 5)),
        (
            gone_us - (604_800_000_000 if long else 2_000),
            group,
            "state",
            rng.choice(["Empty", "Empty", "Empty", "Stable"]),
        ),
    ]
    seen += [(gone_us - 5_000, group, "answers", True)] * rng.choice([0, 1])
    if rng.random() < (0.2 if long else 0.6):
        back_us = gone_us - rng.choice([-2_000, 0, 1_000])
        seen += [(back_us - rng.choice([500, 4_000]), group, "answers", False), (back_us, group, "answers", True)]
    if (how := rng.random()) < 0.7:
        seen += [(gone_us, group, "state", "Dead"), (gone_us, entity, "committed", None)]
    elif how < 0.85:
        seen.append((gone_us, entity, "committed", rng.randint(0, 3)))
    for at_us, name, key, value in seen:
        changed = {"at_us": at_us, "entity": name, "key": key, "value": json.dumps(value)}
        rows.setdefault("cluster", []).append(changed)
    if rng.random() < 0.7 and row["position"] is not None:
        at = {"position": 0, "source": "reset"} if rng.random() < 0.7 else {"position": 1, "source": "committed"}
        row |= at | {"generation": rng.choice([1, row["generation"]])}


@planted
def topic_recreated(rng: random.Random, rows: Rows) -> None:
    """The topic is deleted and created again once or several times."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        _recreated(rng, rows)
    made = [(row, json.loads(row["evidence"])) for row in rows.get("faults", []) if row["kind"] == "topic.recreate"]
    known = rng.random() < 0.5
    for nth, (row, evidence) in enumerate(sorted(made, key=lambda found: found[1]["delete_us"])):
        evidence["former_id"] = "ABCD"[nth] if known else None
        evidence |= {"topic_id": "BCDE"[nth]} if known and "topic_id" in evidence else {}
        row["evidence"] = json.dumps(evidence)


def _recreated(rng: random.Random, rows: Rows) -> None:
    """The topic is deleted at some moment and created again; most of what the log had by then is not in the new one."""
    moments = sorted({row["completed_us"] for row in rows["sends"]})
    if not moments:
        return
    at_us, pause_us = rng.choice(moments), rng.choice([5, 5_000_000])
    for row in (row for table in rows.values() for row in table):
        for name, value in row.items():
            if name.endswith("_us") and value is not None and value > at_us:
                row[name] = value + pause_us
    rows["log"] = [r for r in rows["log"] if (r["timestamp_us"] or 0) > at_us or rng.random() < 0.2]
    evidence: dict[str, object] = {"former_id": None, "delete_us": [at_us + 1, at_us + 2]}
    evidence |= rng.choice(
        [{"create_us": [at_us + 2, at_us + 3], "topic_id": None, "everywhere_us": at_us + 3}] * 3 + [{}]
    )
    fault = {"fault": f"again-{at_us}", "kind": "topic.recreate", "target": "topic t", "phase": "injected"}
    rows.setdefault("faults", []).append(fault | {"evidence": json.dumps(evidence), "at_us": at_us + 4})
    for partition in {row["partition"] for row in rows["log_range"]}:
        for epoch in range(rng.choice([0, 1, 1, 1, 2])):
            seen = {"at_us": at_us + 5 + epoch, "entity": f"t/{partition}", "key": "leader_epoch", "value": str(epoch)}
            rows.setdefault("cluster", []).append(seen)


@planted
def lost_share(rng: random.Random, rows: Rows) -> None:
    """Nobody acquired a record, and the group has none left, or has, or nobody looked."""
    if row := _one(rng, rows, "acquisitions"):
        place = row["partition"], row["offset"]
        for table in ("acquisitions", "acknowledgements"):
            rows[table] = [r for r in rows.get(table, []) if (r["partition"], r["offset"]) != place]
        seen = [r for r in rows["cluster"] if r["key"].startswith("share_")]
        for observation in seen if rng.random() < 0.5 else []:
            rows["cluster"].remove(observation)


@planted
def redelivered_share(rng: random.Random, rows: Rows) -> None:
    if ack := _one(rng, rows, "acknowledgements", type="accept", outcome="ok"):
        same = [r for r in rows["acquisitions"] if all(r[n] == ack[n] for n in ("consumer", "ordinal"))]
        ordinal = max(r["ordinal"] for r in rows["acquisitions"]) + 1
        for row in same[:1]:
            count = max(1, row["delivery_count"] + rng.choice([1, 1, 0, -1]))
            again = {"delivery_count": count, "acquired_us": ack["completed_us"] + rng.choice([0, 1, 9_000])}
            again |= {"ordinal": ordinal, "consumer": rng.choice([row["consumer"], "h/1"])}
            rows["acquisitions"].append(row | again)
            if rng.random() < 0.5:
                error = rng.choice([None, "INVALID_RECORD_STATE", "NOT_LEADER_OR_FOLLOWER", "TIMEOUT"])
                late = {"requested_us": again["acquired_us"] + 1, "completed_us": again["acquired_us"] + 2}
                late |= {"outcome": "unknown" if error else "ok", "error": error, "ordinal": ordinal}
                rows["acknowledgements"].append(ack | late | {"consumer": again["consumer"]})


@planted
def miscounted_share(rng: random.Random, rows: Rows) -> None:
    if row := _one(rng, rows, "acquisitions"):
        row["delivery_count"] = max(1, row["delivery_count"] + rng.choice([1, -1, 2, 9]))


@planted
def lock_overrun(rng: random.Random, rows: Rows) -> None:
    if row := _one(rng, rows, "acquisitions"):
        ordinal = max(r["ordinal"] for r in rows["acquisitions"]) + 1
        again = {"ordinal": ordinal, "acquired_us": row["acquired_us"] + rng.choice([0, 1, 4_000, 60_000])}
        again |= {"delivery_count": row["delivery_count"] + 1, "consumer": "h/1"}
        rows["acquisitions"].append(row | again)


@planted
def share_leader_changed(rng: random.Random, rows: Rows) -> None:
    """In the middle of the acquisitions, seen at once or late."""
    if row := _one(rng, rows, "acquisitions"):
        entity = f"t/{row['partition']}"
        for at_us, value in ((0, 1), (row["acquired_us"] + rng.choice([0, 1, 5_000_000]), 2)):
            rows["cluster"].append({"at_us": at_us, "entity": entity, "key": "leader_epoch", "value": str(value)})
