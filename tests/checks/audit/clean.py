"""Clean histories by hand, for `test_mutations`: much happens in them, and at worst a lawful redelivery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.checks.audit.histories import OUT, TOPIC, History
from tests.checks.audit.story import SHARE_SETTINGS, Story, rows_of

CLEAN: dict[str, Callable[[Story], None]] = {}
LONG_LOCKS = {"share.record.lock.duration.ms": 10**9}
"""They do not expire within a run of histories, which all end with the last one."""
NUMBER = 0
RENAMED = {f"p{NUMBER}": "p", f"c{NUMBER}": "c", f"f{NUMBER}": "f", f"{TOPIC}-out": OUT}


def clean(write: Callable[[Story], None]) -> Callable[[Story], None]:
    CLEAN[write.__name__] = write
    return write


def history(name: str) -> History:
    """A story as a history, under the names that histories use."""
    story = Story(TOPIC, NUMBER)
    CLEAN[name](story)
    rows = {
        table: [
            {column: _plain(value) if column != "group" else value for column, value in row.items()}
            for row in table_rows
        ]
        for table, table_rows in rows_of([story]).items()
    }
    consumer: dict[str, Any] = {"mode": story.mode, "name": "c", "members": story.members}
    if story.mode == "share":
        consumer |= {"group": TOPIC, "client": "java", "settings": SHARE_SETTINGS | LONG_LOCKS | story.consumer}
    else:
        consumer |= {"config": story.consumer_config} | story.consumer
    if story.mode == "subscribe":
        consumer["group"] = TOPIC
    return replace(
        History(rows, partitions=story.partitions, topic_config=story.topic_config),
        producer_config=story.producer_config,
        sending=story.sending,
        consumers=(consumer,) if story.mode else (),
        processes=story.processes,
        counts=story.counts,
    )


def _plain(value: object) -> object:
    if not isinstance(value, str):
        return value
    head, slash, rest = value.partition("/")
    return RENAMED.get(head, head) + slash + rest


def _lives(s: Story, *clients: str) -> None:
    for client in clients:
        s.life(client, "stopped", role="consumer")


@clean
def commits_without_an_answer(s: Story) -> None:
    """A member does not learn the outcome of two commits; the log has only the first of them."""
    s.wrote(0, 1, 2, 3)
    s.life(s.reader(), "started", role="consumer")
    e = s.assigned(generation=1).got(0).commit(1).logged(1).got(1).commit(2, "unknown").logged(2)
    e.got(2).commit(3, "unknown")
    s.tick_on(1_000_000)
    e.got(3).commit(4).logged(4).revoked()
    _lives(s, s.reader())
    s.commits_read_back()


@clean
def two_members_hand_over(s: Story) -> None:
    """A group of two takes over from each other in two partitions; a send timed out, another was refused."""
    s.partitions = s.members = 2
    s.life(s.producer, "started").wrote(0, 1, 2).send(3, outcome="unknown").send(4, outcome="fail")
    for offset, seq in enumerate((5, 6, 7)):
        s.send(seq, offset, partition=1).log(offset, seq, partition=1)
    s.life(s.reader(1), "started", role="consumer").life(s.reader(2), "started", role="consumer")
    zero = s.assigned(1, generation=1).got(0).commit(1).got(1).commit(2)
    one = s.assigned(1, generation=1, partition=1).got(0, seq=lambda o: o + 5).commit(1)
    s.observed("committed", 1, f"group:{TOPIC}/{TOPIC}/1")
    one.revoked()
    zero.revoked()
    again = s.assigned(1, 2, "committed", generation=2)
    other = s.assigned(2, 1, "committed", generation=2, partition=1)
    other.got(1, 2, seq=lambda o: o + 5).commit(3)
    again.got(2).commit(3).revoked()
    other.revoked()
    s.life(s.producer, "stopped")
    _lives(s, s.reader(1), s.reader(2))


@clean
def a_producer_restarts(s: Story) -> None:
    """It died with the row of a record that is there; what was never acknowledged is sent again. A marker and
    retention leave gaps; the one member is thrown out, comes back, and commits asynchronously.
    """
    s.evicted(1)
    s.life(s.producer, "started").send(0, 0).wrote(1, 2).log(3, 3).life(s.producer, "crashed").cut(1)
    s.life(s.producer, "started", incarnation=2)
    s.send(4, 5, incarnation=2).log(5, 4, incarnation=2).send(5, 6, incarnation=2).log(6, 5, incarnation=2)
    s.fault("injected").fault("healed")
    s.life(s.reader(1), "started", role="consumer")
    first = s.assigned(1, 1, generation=3).got(1, 2).commit(3, kind="async")
    first.got(3).commit(4, kind="async", completed_us=s.now + 900)
    first.lost()
    second = s.assigned(1, 4, "committed", generation=5)
    second.got(5, 6, seq=lambda o: o - 1, producer_incarnation=2).commit(7, kind="async").revoked()
    s.life(s.producer, "stopped", incarnation=2)
    _lives(s, s.reader(1))


@clean
def a_processor_dies_and_reads_again(s: Story) -> None:
    """Its transaction is aborted, and the next incarnation writes the output again, in partition 1 as all outputs."""
    s.partitions = 2
    s.life(s.producer, "started").wrote(0, 1, 2).life(s.producer, "stopped")
    s.life(s.reader(1), "started", role="producer")
    s.assigned(1, generation=1).got(0).commit(1, kind="transaction").got(1).died()
    s.output(0, of=0, partition=1).output(1, of=1, seen=False, partition=1)
    s.life(s.reader(1), "started", incarnation=2, role="producer")
    second = s.assigned(1, 1, "committed", generation=2, incarnation=2).got(1, 2)
    s.output(2, of=1, life=2, partition=1).output(3, of=2, life=2, partition=1)
    second.commit(3, kind="transaction").revoked()
    s.life(s.reader(1), "stopped", incarnation=2, role="producer")


@clean
def a_processor_counts(s: Story) -> None:
    """An input was aborted, and does not count."""
    s.partitions = 2
    s.life(s.producer, "started").keyed("k1", "k1", "k2", "k1").life(s.producer, "stopped")
    s.rows["log"][0]["committed"] = False
    s.life(s.reader(1), "started", role="producer")
    s.assigned(1, generation=1).got(1, 2, 3).commit(4, kind="transaction").revoked()
    for n, (offset, key, count) in enumerate([(1, "k1", 1), (2, "k2", 1), (3, "k1", 2)]):
        s.output(n, of=offset, key=key, count=count, partition=1)
    s.life(s.reader(1), "stopped", role="producer")


@clean
def a_static_member_restarts(s: Story) -> None:
    """It dies and is back before its session has ended: in its generation, at what it had committed (KIP-345)."""
    s.life(s.producer, "started").wrote(0, 1, 2, 3).life(s.producer, "stopped")
    s.life(s.reader(1), "started", role="consumer")
    s.assigned(1, generation=4, instance_id="one").got(0, 1).commit(2).died()
    s.life(s.reader(1), "started", incarnation=2, role="consumer")
    back = s.assigned(1, 2, "committed", generation=4, incarnation=2, instance_id="one")
    back.got(2, 3).commit(4).revoked(instance_id="one")
    s.life(s.reader(1), "stopped", incarnation=2, role="consumer")


@clean
def from_its_checkpoint(s: Story) -> None:
    """An assign consumer dies and goes on from its checkpoint; it commits for others to see. acks=0: no offsets."""
    s.mode, s.consumer = "assign", {"group": TOPIC, "commit": {"when": "after_batch"}}
    s.producer_config = {"acks": "0"}
    s.life(s.producer, "started")
    for seq in (0, 1, 2, 3):
        s.send(seq, None).log(seq, seq)
    s.life(s.producer, "stopped").life(s.reader(1), "started", role="consumer")
    s.assigned(1, 0, "start").got(0, 1).commit(2).died()
    s.life(s.reader(1), "started", incarnation=2, role="consumer")
    s.assigned(1, 2, "checkpoint", incarnation=2).got(2, 3).commit(4)
    s.life(s.reader(1), "stopped", incarnation=2, role="consumer")


@clean
def from_a_stored_checkpoint(s: Story) -> None:
    """Its checkpoints are apart from its results: it dies, and processes again what came after the last one."""
    s.mode, s.consumer = "assign", {"checkpoint_every": "1s", "commit": {"when": "never"}}
    s.life(s.producer, "started").wrote(0, 1, 2, 3).life(s.producer, "stopped")
    s.life(s.reader(1), "started", role="consumer")
    s.assigned(1, 0, "start").got(0).stored(1).got(1).died()
    s.life(s.reader(1), "started", incarnation=2, role="consumer")
    s.assigned(1, 1, "checkpoint", incarnation=2).got(1, 2, 3).stored(4)
    s.life(s.reader(1), "stopped", incarnation=2, role="consumer")


@clean
def sought_forward_and_on(s: Story) -> None:
    """Automatic commits; a seek to where the consumer is; a commit past a marker at the end."""
    s.consumer, s.log_end = {"commit": {"kind": "auto"}}, 4
    s.wrote(0, 1, 2).life(s.reader(1), "started", role="consumer")
    s.assigned(1, generation=1).got(0, 1).commit(2, kind="auto", requested_us=s.now, completed_us=s.now)
    sought = s.assigned(1, 2, "seek", generation=1).got(2)
    sought.commit(4, kind="auto", requested_us=s.now, completed_us=s.tick())
    s.saw_committed(4)
    sought.revoked()
    _lives(s, s.reader(1))


@clean
def delivered_again_as_it_may_be(s: Story) -> None:
    """A member goes on with its batch after it was thrown out; another one repeats what was not committed. It dies,
    and the row of its last commit with it; what the observer saw explains where the next one begins.
    """
    s.members = 3
    s.life(s.producer, "started").wrote(0, 1, 2, 3, 4).life(s.producer, "stopped")
    for n in (1, 2, 3):
        s.life(s.reader(n), "started", role="consumer")
    slow = s.assigned(1, generation=1).got(0).commit(1).got(1)
    quick = s.assigned(2, 1, "committed", generation=2).got(1, 2).commit(3)
    slow.got(2).commit(3, "fail").lost()
    quick.got(3, 4)
    s.saw_committed(4)
    quick.died()
    s.assigned(3, 4, "committed", generation=3).got(4).commit(5).revoked()
    _lives(s, s.reader(1), s.reader(3))


@clean
def two_jobs_with_one_group_id(s: Story) -> None:
    """Neither reads where the other committed: the one that died had committed last."""
    s.mode, s.members = "assign", 2
    s.consumer = {"group": TOPIC, "start": "group", "checkpoint": False, "commit": {"when": "after_batch"}}
    s.life(s.producer, "started").wrote(0, 1, 2).life(s.producer, "stopped")
    for n in (1, 2):
        s.life(s.reader(n), "started", role="consumer")
    two = s.assigned(2, 0)
    one = s.assigned(1, 0)
    two.got(0, 1).commit(2).got(2).commit(3)
    one.got(0).commit(1).died()
    s.life(s.reader(1), "started", incarnation=2, role="consumer")
    s.assigned(1, 1, "committed", incarnation=2).got(1, 2).commit(3)
    s.life(s.reader(1), "stopped", incarnation=2, role="consumer")
    _lives(s, s.reader(2))


@clean
def in_transactions_under_observation(s: Story) -> None:
    """Two transactions are committed, one is aborted; the first record is evicted after it was read. The observer sees
    the last stable offset wait for them, a settled group and its coordinator.
    """
    s.partitions, s.members = 2, 2
    s.evicted(1)
    s.life(s.producer, "started").life(s.reader(1), "started", role="consumer").offsets_observed(0, 0)
    began = s.now
    s.send(0, 0, txn=1).send(1, 1, txn=1).log(1, 1).offsets_observed(0, 2).transaction(
        1, "committed", began
    ).offsets_observed(2, 2)
    began = s.now
    s.send(2, 2, txn=2).log(2, 2, committed=False).transaction(2, "aborted", began)
    s.in_transaction(3, "committed", 3).life(s.producer, "stopped")
    s.group_seen(coordinator=1, state="Stable", members=[{"member_id": "a", "partitions": [f"{TOPIC}/0"]}])
    held = [{"member_id": m, "partitions": [f"{TOPIC}/{n}"]} for n, m in enumerate("ab")]
    s.group_seen(members=held).tick(3_000_000)
    s.group_seen(state="Empty")
    first = s.assigned(1, generation=1).got(0, 1).commit(2)
    first.revoked()
    s.life(s.reader(2), "started", role="consumer")
    s.assigned(2, 2, "committed", generation=2).got(3).commit(4).revoked()
    _lives(s, s.reader(1), s.reader(2))


@clean
def from_the_latest(s: Story) -> None:
    """A group begins with what is written from then on. A third partition is added seconds later, and found before
    anything is written to it.
    """
    s.partitions, s.consumer_config = 3, {"auto.offset.reset": "latest"}
    s.life(s.producer, "started").observed("leader", 1).observed("leader", 1, f"{TOPIC}/1")
    s.wrote(0, 1).send(2, 0, partition=1).log(0, 2, partition=1)
    s.life(s.reader(1), "started", role="consumer")
    zero = s.assigned(1, 2, generation=1)
    one = s.assigned(1, 1, generation=1, partition=1)
    s.send(3, 2).log(2, 3)
    zero.got(2, seq=lambda _: 3).commit(3)
    s.send(4, 1, partition=1).log(1, 4, partition=1)
    one.got(1, seq=lambda _: 4).commit(2)
    s.tick(5_000_000)
    s.observed("leader", 1, f"{TOPIC}/2")
    two = s.assigned(1, 0, generation=2, partition=2)
    s.send(5, 0, partition=2).log(0, 5, partition=2)
    two.got(0, seq=lambda _: 5).commit(1)
    for epoch in (zero, one, two):
        epoch.revoked()
    s.life(s.producer, "stopped")
    _lives(s, s.reader(1))


@clean
def compacted(s: Story) -> None:
    """The last record of each key is left."""
    s.compacted().life(s.producer, "started")
    s.evicted(1)
    s.send(0, 1, key="k1").wrote(2, key="k2").wrote(3, key="k1").life(s.producer, "stopped")


@clean
def deleted_keys(s: Story) -> None:
    """The value of one key is still before its tombstone; of another key, only the tombstone is left."""
    s.deleting(held_ms=1).life(s.producer, "started")
    s.wrote(0, 1, key="k1").send(2, 2, key="k2").wrote(3, key="k2").wrote(4, key="k4")
    s.life(s.producer, "stopped").read_back()


@clean
def deleted_keys_of_a_log_that_took_long_to_read(s: Story) -> None:
    """Tombstones may have expired meanwhile: one that is not there means nothing."""
    s.deleting(held_ms=1).life(s.producer, "started").wrote(0, 1, key="k1").wrote(2, key="k2")
    s.life(s.producer, "stopped").read_back(took_us=1_000)


@clean
def reset_by_an_administrator(s: Story) -> None:
    """A group has read everything and left; its offset is set back, and another member begins there."""
    s.members = 2
    s.life(s.producer, "started").wrote(0, 1, 2).life(s.producer, "stopped")
    s.life(s.reader(1), "started", role="consumer")
    s.assigned(1, generation=1).got(0, 1, 2).commit(3).revoked()
    _lives(s, s.reader(1))
    s.moved(1).life(s.reader(2), "started", role="consumer")
    s.assigned(2, 1, "committed", generation=3).got(1).commit(2).got(2).commit(3).revoked()
    _lives(s, s.reader(2))


@clean
def a_coordinator_comes_back(s: Story) -> None:
    """It does not answer for a moment, and has the commit after that; the next member begins there."""
    s.members = 2
    s.life(s.producer, "started").wrote(0, 1, 2, 3).life(s.producer, "stopped")
    s.life(s.reader(1), "started", role="consumer").group_seen(answers=True, state="Stable")
    first = s.assigned(1, generation=1).got(0, 1).commit(2)
    s.saw_committed(2).group_seen(answers=False).group_seen(answers=True)
    first.got(2).commit(3)
    s.saw_committed(3)
    first.revoked()
    s.life(s.reader(2), "started", role="consumer")
    s.assigned(2, 3, "committed", generation=2).got(3).commit(4).revoked()
    _lives(s, s.reader(1), s.reader(2))


@clean
def deleted_after_a_long_absence(s: Story) -> None:
    """A group has been without members for as long as Kafka keeps its offset, which an administrator deletes then."""
    s.members = 2
    s.life(s.producer, "started").wrote(0, 1).life(s.producer, "stopped")
    s.life(s.reader(1), "started", role="consumer").group_seen(answers=True, state="Stable")
    s.assigned(1, generation=1).got(0, 1).commit(2).revoked()
    s.saw_committed(2).group_seen(state="Empty")
    _lives(s, s.reader(1))
    s.tick(7 * 24 * 3600 * 1_000_000)
    s.moved(None, kind="group.delete_offsets").saw_committed(None)
    s.life(s.reader(2), "started", role="consumer")
    s.assigned(2, 0, "reset", generation=2).got(0, 1).commit(2).revoked()
    _lives(s, s.reader(2))


@clean
def in_turn_and_forgotten(s: Story) -> None:
    """A producer takes partitions in turn, and looks at no result: one send was never answered, and arrived."""
    s.partitions, s.sending = 2, {"partitioner": "round_robin", "mode": "fire_and_forget"}
    s.life(s.producer, "started")
    for seq in (0, 1, 2, 3):
        outcome = "unknown" if seq == 2 else "ok"
        offset = None if seq == 2 else seq // 2
        s.send(seq, offset, outcome, partition=seq % 2).log(seq // 2, seq, partition=seq % 2)
    s.life(s.producer, "stopped")


@clean
def a_share_group_takes_turns(s: Story) -> None:
    """One record is released first, one is rejected; the group is at the end."""
    _share(s)
    s.share_seen(4, 0)


@clean
def a_share_group_that_nobody_looked_at(s: Story) -> None:
    _share(s)


@clean
def a_share_group_reads_committed_records(s: Story) -> None:
    s.consumer = {"share.isolation.level": "read_committed"}
    s.life(s.producer, "started").in_transaction(0, "committed", 0, 1)
    s.life(s.producer, "stopped").acquires(1, 0, 1).ends().share_seen(4, 0).tick_on(3_000_000)
    _lives(s, s.reader(1))


def _share(s: Story) -> None:
    s.members = 2
    s.wrote(0, 1, 2, 3)
    s.acquires(1, 0, 1).ends()
    s.acquires(2, 2).ends("release").acquires(1, 2, count=2).ends()
    s.acquires(2, 3).ends("reject").tick_on(3_000_000)  # until then the end of a member explains acquisitions
    _lives(s, s.reader(1), s.reader(2))
