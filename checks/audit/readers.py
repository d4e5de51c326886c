"""Who reads: one reader per group of subscribe consumers, one per assign-mode consumer (over all its incarnations)."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.scenario.consumers import StartAt, reads_committed
from chaos.scenario.model import Scenario

LATEST = "latest"
EARLIEST = "earliest"


@dataclass(frozen=True)
class Reader:
    """A reader as the scenario describes it.

    reset: what auto.offset.reset means where nothing is committed, earliest or latest. first: where it begins on a
    partition of which it never says where it began: earliest, or "" where that cannot be known. commits: whether it
    commits, auto: whether its client does so by itself. fresh_start: whether it begins again at its given start in
    each incarnation, keeping no checkpoint. pooled: whether workers process what one thread polls, so that a record may
    be overtaken by later ones; a row's ordinal is that of the poll then. committed_only: whether it sees committed
    records only (isolation.level=read_committed). assignor: how its group spreads partitions, "" where its members do
    not agree on that or on their topics. entries: of a group, the scenario's entries by name, with the topics that
    the members of each subscribe to.
    """

    name: str
    mode: str
    group: str | None
    topics: tuple[str, ...]
    members: int
    reset: str
    first: str
    commits: bool
    auto: bool = False
    fresh_start: bool = False
    pooled: bool = False
    committed_only: bool = True
    assignor: str = ""
    entries: tuple[tuple[str, tuple[str, ...]], ...] = ()


def readers_of(scenario: Scenario) -> list[Reader]:
    """All readers of a scenario. Entries that share a group are one reader; it resets to earliest if all of them do."""
    readers: dict[str, Reader] = {}
    names = [t.name for t in scenario.topics]
    for c in scenario.readers:
        reset, committed_only = _reset(c.config), reads_committed(c)
        assignor = assignor_of(c.config)
        commits, auto = c.commit.when != "never" or c.commit.on_revoke, c.commit.kind == "auto"
        if c.mode == "subscribe":
            topics, members, known = set(c.topics_among(names)), c.admitted_members, readers.get(c.group)
            entries = ((c.name, tuple(sorted(topics))),) + (known.entries if known else ())
            if known:
                members += known.members
                topics |= set(known.topics)
                reset = reset if reset == known.reset else LATEST
                commits, auto = commits or known.commits, auto or known.auto
                committed_only = committed_only and known.committed_only
                alike = assignor == known.assignor and topics == set(c.topics_among(names)) == set(known.topics)
                assignor = assignor if alike else ""
            first = reset if reset == EARLIEST else ""
            pooled = c.workers is not None or (known is not None and known.pooled)
            readers[c.group] = Reader(
                c.group,
                c.mode,
                c.group,
                tuple(sorted(topics)),
                members,
                reset,
                first,
                commits,
                auto,
                pooled=pooled,
                committed_only=committed_only,
                assignor=assignor,
                entries=entries,
            )
            continue
        first = _first(c.start, reset)
        for i in range(1, c.members + 1):
            name = f"{c.name}/{i}"
            readers[name] = Reader(
                name,
                c.mode,
                c.group,
                tuple(sorted(c.topics)),
                1,
                reset,
                first,
                commits,
                auto,
                fresh_start=not c.checkpoint,
                committed_only=committed_only,
            )
    return list(readers.values())


def _reset(config: dict[str, bool | int | float | str]) -> str:
    """auto.offset.reset in librdkafka's spellings; its default is latest."""
    value = str(config.get("auto.offset.reset", LATEST)).lower()
    return EARLIEST if value in ("earliest", "smallest", "beginning") else LATEST


def assignor_of(config: dict[str, bool | int | float | str]) -> str:
    """The assignor that members with these settings all support first; librdkafka's default is range,roundrobin."""
    if str(config.get("group.protocol", "classic")).lower() == "consumer":
        return str(config.get("group.remote.assignor") or "uniform")
    return str(config.get("partition.assignment.strategy") or "range,roundrobin").split(",")[0].strip()


def _first(start: str | StartAt, reset: str) -> str:
    if start == "earliest" or (start == "group" and reset == EARLIEST):
        return EARLIEST
    return ""
