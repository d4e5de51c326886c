"""The points for programs that read: group consumers and assign consumers."""

from __future__ import annotations

import time
from typing import Any

from chaos.clients.protocol import AssignConsumerSpec, GroupConsumerSpec
from chaos.conformance.bench import (
    PARTITIONS,
    SESSION_MS,
    Bench,
    Broken,
    Row,
    crash,
    eventually,
    orphan,
    require,
    rubbish,
    stop,
)
from chaos.conformance.writers import Steps
from chaos.fleet.roster import ClientState
from chaos.kafka.admin import commit
from chaos.kafka.partition import TopicPartition
from chaos.run.events import now_us

RECORDS = 300
AFTER_BATCH = {"when": "after_batch", "kind": "sync"}
APART_S = 0.05
"""Time between records and a timestamp, which have milliseconds."""
EARLIEST = {"auto.offset.reset": "earliest", "session.timeout.ms": SESSION_MS}


def group_consumer(bench: Bench) -> Steps:
    """A group member, from its assignment to a crash and the next incarnation."""
    topic, client, group = bench.topic(), "reader/1", bench.named("readers")
    state: list[ClientState] = []

    def spec(incarnation: int = 1, name: str = client, **more: Any) -> GroupConsumerSpec:
        fields = {"group": group, "topics": [topic], "commit": AFTER_BATCH, "config": EARLIEST, "max_poll_records": 50}
        return GroupConsumerSpec.model_validate({**bench.common(name, incarnation), **fields, **more})

    def joins() -> None:
        state.append(bench.start(spec()))
        names = [f"{topic}/{p}" for p in range(PARTITIONS)]
        eventually(
            lambda: state[0].assigned() == names,
            lambda: f"progress shows assigned {state[0].assigned()}, not {names}",
        )
        progress = state[0].progress()
        require(bool(progress.get("member_id")), "progress has no member_id")
        rows = bench.rows("assignments", client)
        require(len(rows) == PARTITIONS, f"{len(rows)} rows of assignments for {PARTITIONS} partitions")
        for row in rows:
            found = (row["event"], row["assignment"], row["position"], row["source"], row["mode"], row["group"])
            expected = ("assigned", 1, 0, "reset", "subscribe", group)
            require(found == expected, f"the row of an assignment has {found}, not {expected}")

    def reads() -> None:
        bench.fill(topic, RECORDS)
        eventually(
            lambda: state[0].count("delivered") == RECORDS,
            lambda: f"progress shows {state[0].count('delivered')} of {RECORDS} delivered",
        )
        reported = state[0].count("delivered")
        rows = bench.rows("deliveries", client)
        require(len(rows) >= reported, f"progress counts {reported} delivered records, and {len(rows)} have rows")
        _compare(bench, topic, rows)

    def commits() -> None:
        ends = {p: RECORDS // PARTITIONS for p in range(PARTITIONS)}
        eventually(
            lambda: bench.committed(group, topic) == ends,
            lambda: f"the group has committed {bench.committed(group, topic)}, not {ends}",
        )
        eventually(
            lambda: _last_commits(bench.rows("commits", client)) == ends,
            lambda: f"the last rows of commits are {_last_commits(bench.rows('commits', client))}, not {ends}",
        )

    def slows() -> None:
        state[0].order({"do": "slow", "per_record_s": 0.01})
        eventually(lambda: bench.details(client, "slowed"), "no row with event slowed")
        state[0].order({"do": "slow", "per_record_s": 0})
        eventually(lambda: bench.details(client, "resumed"), "no row with event resumed")

    def seeks() -> None:
        before = state[0].count("delivered")
        state[0].order({"do": "seek", "offsets": {f"{topic}/0": 100}})
        eventually(lambda: state[0].progress().get("sought"), "progress shows no field sought")
        sought = state[0].progress()["sought"]
        end = RECORDS // PARTITIONS
        require(sought == [[f"{topic}/0", end, 100]], f"sought is {sought}, not {[[f'{topic}/0', end, 100]]}")
        eventually(
            lambda: state[0].count("delivered") == before + end - 100,
            lambda: f"{state[0].count('delivered') - before} records after the seek, not {end - 100}",
        )
        rows = [r for r in bench.rows("assignments", client) if r["event"] == "seek"]
        found = [(r["partition"], r["position"], r["source"]) for r in rows]
        require(found == [(0, 100, "seek")], f"the rows of the seek are {found}")

    def leaves() -> None:
        stop(state[0])
        require(len(bench.details(client, "stopped")) == 1, "no row with event stopped")
        eventually(lambda: not _members(bench, group), "the group still has a member")
        ended = [r for r in bench.rows("assignments", client) if r["event"] == "revoked"]
        positions = {r["partition"]: r["position"] for r in ended}
        ends = dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
        require(positions in (ends, {}), f"the rows revoked have the positions {positions}, not {ends}")

    def crashes() -> None:
        bench.fill(topic, RECORDS)
        running = bench.start(spec(2, per_record_s=0.005))
        eventually(lambda: running.count("delivered") >= 60, "nothing is delivered in the second incarnation")
        crash(running)
        reported, rows = running.count("delivered"), bench.rows("deliveries", client, 2)
        require(len(rows) >= reported, f"{reported} were reported as delivered, and {len(rows)} rows survive a SIGKILL")
        read = {(r["partition"], r["offset"]) for r in rows}
        begin = RECORDS // PARTITIONS
        for partition, end in bench.committed(group, topic).items():
            missing = [n for n in range(begin, end) if (partition, n) not in read]
            require(not missing, f"{len(missing)} records below the committed offset have no row")

    def continues() -> None:
        committed = bench.committed(group, topic)
        running = bench.start(spec(3))
        eventually(lambda: sum(running.positions().values()) == 2 * RECORDS, lambda: f"positions {running.positions()}")
        stop(running)
        began = [r for r in bench.rows("assignments", client, 3) if r["event"] == "assigned"]
        found = {r["partition"]: r["position"] for r in began}
        require(found == committed, f"it began at {found}, committed was {committed}")
        require({r["source"] for r in began} == {"committed"}, "the source of these positions is not committed")

    yield "starts, joins its group and records its assignment", joins
    yield "records every delivery once, equal to the log", reads
    yield "commits, and records the committed offsets", commits
    yield "reports and ignores orders that are none", lambda: rubbish(state[0])
    yield "obeys the order slow", slows
    yield "obeys the order seek", seeks
    yield "leaves its group by order, with event, row and exit code 0", leaves
    yield "writes a row before it commits, and rows survive a SIGKILL", crashes
    yield "continues at the committed offsets in the next incarnation", continues
    yield "commits on revocation, and another member continues there", lambda: _hand_over(bench)
    other = spec(name="quiet/1", group=bench.named("quiet"))
    yield "ends when stdin ends", lambda: orphan(bench.start(other))


def _hand_over(bench: Bench) -> None:
    """Let a second member join while the first one commits only when its partitions are revoked."""
    topic, group, end = bench.topic(), bench.named("hand-over"), RECORDS // PARTITIONS

    def spec(name: str, commits: dict[str, Any]) -> GroupConsumerSpec:
        fields = {"group": group, "topics": [topic], "commit": commits, "config": EARLIEST}
        return GroupConsumerSpec.model_validate({**bench.common(name), **fields})

    bench.fill(topic, RECORDS)
    first = bench.start(spec("old/1", {"when": "periodic", "kind": "sync", "every_s": 3600, "on_revoke": True}))
    eventually(lambda: first.count("delivered") == RECORDS, lambda: f"{first.count('delivered')} delivered")
    require(not any(bench.committed(group, topic).values()), "it commits before its partitions are revoked")
    second = bench.start(spec("heir/1", AFTER_BATCH))
    eventually(
        lambda: len(first.assigned()) == len(second.assigned()) == 1,
        lambda: f"two members of a group have {first.assigned()} and {second.assigned()}, not one partition each",
    )
    bench.fill(topic, RECORDS)
    eventually(
        lambda: first.count("delivered") + second.count("delivered") >= 2 * RECORDS,
        lambda: f"{first.count('delivered') + second.count('delivered')} of {2 * RECORDS} delivered",
    )
    stop(second)
    stop(first)
    (began,) = [r for r in bench.rows("assignments", "heir/1") if r["event"] == "assigned"][:1]
    found = (began["position"], began["source"])
    require(found == (end, "committed"), f"the second member began at {found}, not at {(end, 'committed')}")
    commits = [r["offset"] for r in bench.rows("commits", "old/1") if r["partition"] == began["partition"]]
    require(end in commits, f"the first member has no row of its commit of {end}")
    read = [(r["partition"], r["offset"]) for name in ("old/1", "heir/1") for r in bench.rows("deliveries", name)]
    require(len(read) == len(set(read)) == 2 * RECORDS, f"{len(read)} deliveries of {len(set(read))} records")


def assign_consumer(bench: Bench) -> Steps:
    """A consumer in assign mode: start positions and a checkpoint."""
    topic = bench.topic()

    def spec(name: str, **more: Any) -> AssignConsumerSpec:
        never = {"when": "never", "kind": "sync"}
        return AssignConsumerSpec.model_validate({**bench.common(name), "topics": [topic], "commit": never, **more})

    def started(name: str, positions: dict[int, int], source: str, on: str = topic, **more: Any) -> None:
        running = bench.start(spec(name, **{"topics": [on], **more}))
        eventually(lambda: len(bench.rows("assignments", name)) >= PARTITIONS, "no row for each assigned partition")
        expected = sum(RECORDS // PARTITIONS - position for position in positions.values())
        eventually(
            lambda: running.count("delivered") == expected,
            lambda: f"{running.count('delivered')} delivered, not {expected}",
        )
        stop(running)
        rows = bench.rows("assignments", name)
        found = {r["partition"]: (r["position"], r["source"], r["mode"]) for r in rows if r["event"] == "assigned"}
        wanted = {p: (position, source, "assign") for p, position in positions.items()}
        require(found == wanted, f"it began at {found}, not at {wanted}")
        begins = {p: position for p, position in positions.items() if position < RECORDS // PARTITIONS}
        _compare(bench, on, bench.rows("deliveries", name), begins)

    def fill_and_start() -> None:
        bench.fill(topic, RECORDS)
        started("all/1", {0: 0, 1: 0}, "start")

    def commits_nothing() -> None:
        rows = [r for name in ("all/1", "some/1") for r in bench.rows("commits", name)]
        require(not rows, f"{len(rows)} rows of commits, although the setting is never")

    offsets = {f"{topic}/0": 40, f"{topic}/1": 90}
    yield "reads every partition from the earliest offset", fill_and_start
    yield (
        "starts at given offsets",
        lambda: started("some/1", {0: 40, 1: 90}, "start", start="offsets", offsets=offsets),
    )
    yield "starts at the latest offset", lambda: started("new/1", {0: 150, 1: 150}, "start", start="latest")
    yield "continues at its checkpoint", lambda: started("back/1", {0: 40, 1: 90}, "checkpoint", checkpoint=offsets)
    yield "commits nothing unless the setting says so", commits_nothing

    def from_group() -> None:
        group = bench.named("replay")
        commit(bench.kafka, group, {TopicPartition(topic, 0): 70, TopicPartition(topic, 1): 0})
        started("replay/1", {0: 70, 1: 0}, "committed", start="group", group=group)

    def from_time() -> None:
        timed = bench.topic()
        bench.fill(timed, 80)
        time.sleep(APART_S)
        at_ms = now_us() // 1000
        time.sleep(APART_S)
        bench.fill(timed, RECORDS - 80)
        started("timed/1", {0: 40, 1: 40}, "start", timed, start="timestamp", timestamp_ms=at_ms)

    yield "starts at the committed offsets of a group", from_group
    yield "starts at a timestamp", from_time
    yield "ends when stdin ends", lambda: orphan(bench.start(spec("idle/1")))


def _compare(bench: Bench, topic: str, rows: list[Row], begins: dict[int, int] | None = None) -> None:
    """Check that rows of deliveries are the log from the given offsets on, once each and in order."""
    begins = dict.fromkeys(range(PARTITIONS), 0) if begins is None else begins
    log = {(r.partition, r.offset): r.identity for r in bench.log(topic) if r.offset >= begins.get(r.partition, 2**62)}
    found = [(r["partition"], r["offset"]) for r in rows]
    require(len(found) == len(set(found)), f"{len(found) - len(set(found))} records have two rows")
    require(set(found) == set(log), f"{len(set(found) ^ set(log))} records differ from those in the log")
    ordinals = sorted(r["ordinal"] for r in rows)
    require(ordinals == list(range(len(rows))), "the ordinals are not 0, 1, …")
    for row in rows:
        identity = log[row["partition"], row["offset"]]
        if identity is None:
            raise Broken("the log has a record of somebody else")
        row_identity = (row["producer"], row["producer_incarnation"], row["seq"], row["sent_us"])
        expected = (identity.producer, identity.incarnation, identity.seq, identity.sent_us)
        where = f"the row of {row['topic']}/{row['partition']}/{row['offset']}"
        require(row_identity == expected, f"{where} has {row_identity}, the log {expected}")
        require(row["assignment"] is not None, f"{where} has no number of its assignment")
        require(row["polled_us"] <= row["processed_us"], f"{where} is processed before it is polled")


def _last_commits(rows: list[Row]) -> dict[int, int]:
    return {row["partition"]: row["offset"] for row in rows if row["outcome"] == "ok"}


def _members(bench: Bench, group: str) -> int:
    state = bench.kafka.group(group)
    return len(state.members) if state else 1
