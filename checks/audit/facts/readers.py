"""Readers of a scenario: one per subscribe group, one per assign-mode consumer over all its incarnations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from chaos.scenario.model import Scenario
from chaos.setup.clients import Assign, Subscribe, assignors_of, reads_committed, settings_of, uses_kip_848

LATEST = "latest"
EARLIEST = "earliest"


@dataclass(frozen=True)
class Entry:
    """A scenario entry of a group: its topics, its auto.offset.reset, and its assignors in order of preference.

    kip_848: whether the broker assigns its partitions.
    """

    name: str
    topics: tuple[str, ...]
    reset: str = LATEST
    assignors: tuple[str, ...] = ()
    kip_848: bool = False


@dataclass(frozen=True)
class Reader:
    """A reader as the scenario describes it.

    reset: auto.offset.reset where nothing is committed, earliest or latest. default_start: where it begins on a
    partition without a recorded position, earliest or "" if unknown. commits: whether it commits. auto: whether its
    client commits by itself. fresh_start: whether each incarnation begins at the configured start, without a
    checkpoint. stores_checkpoints: whether its checkpoints are apart from its results. committed_only:
    isolation.level=read_committed. assignor: how the group spreads partitions, "" where its members differ in assignors
    or topics; see `assignors_for`. processes: whether all its members are processors. counts:
    whether they count by key. entries: the entries of the group.
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
    stores_checkpoints: bool = False
    committed_only: bool = True
    assignor: str = ""
    processes: bool = False
    counts: bool = False
    entries: tuple[Entry, ...] = ()

    def seen_by(self, consumer: str) -> Reader:
        """Return the reader with the auto.offset.reset of the entry that a member such as `billing/1` belongs to."""
        reset = next((e.reset for e in self.entries if e.name == entry_of(consumer)), self.reset)
        return self if reset == self.reset else replace(self, reset=reset, default_start=_default_start(reset))

    def assignors_for(self, members: Iterable[str]) -> tuple[str, ...]:
        """Return the assignors from which the coordinator selects one for these members; none if unknown.

        Each member votes for its first assignor that all of them support, and the one with most votes is selected
        (`ClassicGroup.selectProtocol` in Apache Kafka). A tie is decided by the order of an unordered map. As soon as
        one member has group.protocol=consumer, the broker computes the assignment of all, and only such members vote.
        """
        if self.assignor:
            return (self.assignor,)
        known = {e.name: e for e in self.entries}
        entries = [known.get(entry_of(member), Entry("", ())) for member in members]
        lists = [e.assignors for e in [e for e in entries if e.kip_848] or entries]
        shared = set.intersection(*map(set, lists)) if lists else set()
        votes = Counter(next(a for a in own if a in shared) for own in lists if shared)
        most = max(votes.values(), default=0)
        return tuple(sorted(assignor for assignor, count in votes.items() if count == most))


def readers_of(scenario: Scenario) -> list[Reader]:
    """Return all readers of a scenario. Entries that share a group are one reader; see `_merged`."""
    readers: dict[str, Reader] = {}
    topics = [t.name for t in scenario.topics]
    processing, counting = processor_groups(scenario), {p.group for p in scenario.processors if p.state}
    for consumer in scenario.readers:
        for reader in _readers(consumer, topics):
            same_group = readers.get(reader.name) if reader.mode == "subscribe" else None
            found = _merged(same_group, reader) if same_group else reader
            counts = found.name in processing and found.name in counting
            readers[reader.name] = replace(found, processes=found.name in processing, counts=counts)
    return list(readers.values())


def processor_groups(scenario: Scenario) -> frozenset[str]:
    """Return the groups that have only processors: only there each input has to have an output."""
    others = {c.group for c in scenario.consumers if c.mode == "subscribe"}
    return frozenset(p.group for p in scenario.processors if p.group not in others)


def _readers(c: Subscribe | Assign, topics: list[str]) -> list[Reader]:
    """Return the reader of a subscribe entry, or one reader per member of an assign entry."""
    reset = _reset(c)
    reader = Reader(
        name=c.name,
        mode=c.mode,
        group=c.group,
        topics=tuple(sorted(c.topics)),
        members=1,
        reset=reset,
        default_start=_default_start(reset),
        commits=commits_offsets(c),
        auto=c.commit.kind == "auto",
        committed_only=reads_committed(c),
    )
    if c.mode == "subscribe":
        subscribed = tuple(sorted(set(c.topics_among(topics))))
        entry = Entry(c.name, subscribed, reset, assignors_of(c.config, c.client), uses_kip_848(c.config))
        group = replace(reader, name=c.group, topics=subscribed, members=c.admitted_members)
        return [replace(group, assignor=entry.assignors[0], entries=(entry,))]
    from_earliest = c.start == EARLIEST or (c.start == "group" and reset == EARLIEST)
    assigned = replace(
        reader,
        default_start=EARLIEST if from_earliest else "",
        fresh_start=not c.checkpoint,
        stores_checkpoints=c.checkpoint_interval is not None,
    )
    return [replace(assigned, name=f"{c.name}/{i}") for i in range(1, c.members + 1)]


def commits_offsets(consumer: Subscribe | Assign) -> bool:
    """Return whether a scenario's consumer commits offsets."""
    return consumer.commit.when != "never" or consumer.commit.on_revoke


def _merged(a: Reader, b: Reader) -> Reader:
    """Merge two entries of a group. It resets to earliest, and reads committed records only, if both entries do."""
    reset = b.reset if a.reset == b.reset else LATEST
    entries = b.entries + a.entries
    alike = a.assignor and a.topics == b.topics and len({entry.assignors for entry in entries}) == 1
    return replace(
        b,
        topics=tuple(sorted({*a.topics, *b.topics})),
        members=a.members + b.members,
        reset=reset,
        default_start=_default_start(reset),
        commits=a.commits or b.commits,
        auto=a.auto or b.auto,
        committed_only=a.committed_only and b.committed_only,
        assignor=b.assignor if alike else "",
        entries=entries,
    )


def entry_of(consumer: str) -> str:
    """Return the scenario entry of a client: `billing` of `billing/1`."""
    return consumer.rpartition("/")[0]


def _default_start(reset: str) -> str:
    return EARLIEST if reset == EARLIEST else ""


def _reset(consumer: Subscribe | Assign) -> str:
    """Return auto.offset.reset from the spellings of the libraries; by default the value of the library."""
    client = consumer.client
    default = client.traits.defaults(client.release).get("auto.offset.reset", LATEST)
    value = str(settings_of(consumer).get("auto.offset.reset", default)).lower()
    return EARLIEST if value in ("earliest", "smallest", "beginning") else LATEST
