"""Readers of a scenario: one per subscribe group, one per assign-mode consumer over all its incarnations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from chaos.scenario.clients import Assign, Subscribe, reads_committed
from chaos.scenario.model import Scenario

LATEST = "latest"
EARLIEST = "earliest"


@dataclass(frozen=True)
class Reader:
    """A reader as the scenario describes it.

    reset: auto.offset.reset where nothing is committed, earliest or latest. default_start: where it begins on a
    partition without a recorded position, earliest or "" if unknown. commits: whether it commits. auto: whether its
    client commits by itself. fresh_start: whether each incarnation begins at the configured start, without a
    checkpoint. pooled: whether workers process what one thread polls, so that records overtake each other; the ordinal
    of a row is then that of the poll. committed_only: isolation.level=read_committed. assignor: how the group spreads
    partitions, "" where its members differ in assignor or topics. entries: names of the group's scenario entries, each
    with its topics.
    """

    name: str
    mode: str
    group: str | None
    topics: tuple[str, ...]
    members: int
    reset: str
    default_start: str
    commits: bool
    auto: bool = False
    fresh_start: bool = False
    pooled: bool = False
    committed_only: bool = True
    assignor: str = ""
    entries: tuple[tuple[str, tuple[str, ...]], ...] = ()


def readers_of(scenario: Scenario) -> list[Reader]:
    """Return all readers of a scenario. Entries that share a group are one reader; see `_merged`."""
    readers: dict[str, Reader] = {}
    topics = [t.name for t in scenario.topics]
    for consumer in scenario.readers:
        for reader in _readers(consumer, topics):
            same_group = readers.get(reader.name) if reader.mode == "subscribe" else None
            readers[reader.name] = _merged(same_group, reader) if same_group else reader
    return list(readers.values())


def _readers(c: Subscribe | Assign, topics: list[str]) -> list[Reader]:
    """Return the reader of a subscribe entry, or one reader per member of an assign entry."""
    reset = _reset(c.config)
    reader = Reader(
        name=c.name,
        mode=c.mode,
        group=c.group,
        topics=tuple(sorted(c.topics)),
        members=1,
        reset=reset,
        default_start=EARLIEST if reset == EARLIEST else "",
        commits=commits_offsets(c),
        auto=c.commit.kind == "auto",
        committed_only=reads_committed(c),
    )
    if c.mode == "subscribe":
        subscribed = tuple(sorted(set(c.topics_among(topics))))
        group = replace(reader, name=c.group, topics=subscribed, members=c.admitted_members)
        entries = ((c.name, subscribed),)
        return [replace(group, pooled=c.workers is not None, assignor=assignor_of(c.config), entries=entries)]
    from_earliest = c.start == EARLIEST or (c.start == "group" and reset == EARLIEST)
    assigned = replace(reader, default_start=EARLIEST if from_earliest else "", fresh_start=not c.checkpoint)
    return [replace(assigned, name=f"{c.name}/{i}") for i in range(1, c.members + 1)]


def commits_offsets(consumer: Subscribe | Assign) -> bool:
    """Return whether a scenario's consumer commits offsets."""
    return consumer.commit.when != "never" or consumer.commit.on_revoke


def _merged(a: Reader, b: Reader) -> Reader:
    """Merge two entries of a group. It resets to earliest, and reads committed records only, if both entries do."""
    reset = b.reset if a.reset == b.reset else LATEST
    return replace(
        b,
        topics=tuple(sorted({*a.topics, *b.topics})),
        members=a.members + b.members,
        reset=reset,
        default_start=EARLIEST if reset == EARLIEST else "",
        commits=a.commits or b.commits,
        auto=a.auto or b.auto,
        pooled=a.pooled or b.pooled,
        committed_only=a.committed_only and b.committed_only,
        assignor=b.assignor if (a.assignor, a.topics) == (b.assignor, b.topics) else "",
        entries=b.entries + a.entries,
    )


def _reset(config: Mapping[str, bool | int | float | str]) -> str:
    """Return auto.offset.reset from librdkafka's spellings; its default is latest."""
    value = str(config.get("auto.offset.reset", LATEST)).lower()
    return EARLIEST if value in ("earliest", "smallest", "beginning") else LATEST


def assignor_of(config: Mapping[str, bool | int | float | str]) -> str:
    """Return the first assignor that members with these settings support; librdkafka's default is range,roundrobin."""
    if str(config.get("group.protocol", "classic")).lower() == "consumer":
        return str(config.get("group.remote.assignor") or "uniform")
    return str(config.get("partition.assignment.strategy") or "range,roundrobin").split(",")[0].strip()
