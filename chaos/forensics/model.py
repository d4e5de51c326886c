"""What an examination found: the model of `result.json`, with its lines for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, Field

from chaos.report.text import Clock, count, duration

Verdict = Literal["nothing found", "found", "incomplete"]
EXIT_CODES: dict[Verdict, int] = {"nothing found": 0, "found": 1, "incomplete": 3}
MOST_NAMED = 40
"""Findings of one kind that are named; all are counted."""

KINDS = {
    "rewind": ("rewind", "a committed offset fell: a member that starts from it reads records again"),
    "jump": (
        "unusual step",
        "a committed offset rose by far more than it usually does; whether the records between were read is not in the "
        "log of commits",
    ),
    "beyond": (
        "out-of-range offset",
        "a committed offset is above the end that the log has now: the log was cut or its topic was made again, or a "
        "client or tool set the offset",
    ),
    "removed": (
        "removed offset",
        "an offset was removed: it expired, or DeleteGroups, OffsetDelete or the deletion of its topic removed it; "
        "their tombstones look alike",
    ),
    "foreign": (
        "foreign commit",
        "a commit while the group had no members: a tool (such as kafka-consumer-groups --reset-offsets), or a client "
        "that assigns partitions itself",
    ),
    "hanging": (
        "hanging transaction",
        "open on its partition, and no coordinator has it: nothing will end it, and readers of committed records stop "
        "there; kafka-transactions.sh ends it",
    ),
    "sequence": (
        "repeated sequence",
        "a partition has a sequence of an idempotent producer twice: a broker took a batch again, or a client before "
        "2.5 began its sequence again",
    ),
    "content": (
        "repeated content",
        "records with equal key, value and headers: sent again by an application, by a retry without idempotence, or "
        "on purpose",
    ),
    "under-replicated": ("under-replicated time", "a partition had fewer replicas in sync than before"),
    "unclean": ("unclean election", "a replica that was not in sync became leader: acknowledged records may be lost"),
    "refused": ("ISR refusal", "writes were refused: fewer replicas than min.insync.replicas were in sync"),
}
"""What each kind of finding is called, and what it means."""


class Finding(BaseModel):
    """Something found. where: group and partition, or partition. place: the record that shows it."""

    kind: str
    where: str
    at_us: int | None
    words: str
    place: str = ""


class Findings(BaseModel):
    """All findings, counted; the first ones of each kind are named."""

    counts: dict[str, int] = {}
    named: list[Finding] = []

    def add(self, finding: Finding) -> None:
        """Count a finding, and name it if it is one of the first."""
        self.counts[finding.kind] = number = self.counts.get(finding.kind, 0) + 1
        if number <= MOST_NAMED:
            self.named.append(finding)

    def of(self, kind: str) -> list[Finding]:
        """Return the named findings of a kind, by time."""
        return sorted((f for f in self.named if f.kind == kind), key=lambda f: f.at_us or 0)


class CommitRow(BaseModel):
    """A commit in the history of a partition. offset: None if it was removed. how: its transaction, if it has one."""

    at_us: int
    offset: int | None
    metadata: str = ""
    who: str = ""
    how: str = ""
    place: str = ""


class Place(BaseModel):
    """The history of a group on one partition; rows: the last ones. end: of the log now."""

    topic: str
    partition: int
    commits: int = 0
    aborted: int = 0
    first_us: int | None = None
    last_us: int | None = None
    offset: int | None = None
    end: int | None = None
    rows: list[CommitRow] = []
    found: list[str] = []

    @property
    def lag(self) -> int | None:
        """Records from the committed offset to the end of the log."""
        return None if self.offset is None or self.end is None else max(0, self.end - self.offset)


class Group(BaseModel):
    """A group. state: now, as its coordinator says."""

    name: str
    state: str = ""
    members: list[str] = []
    places: list[Place] = []
    notes: list[str] = []

    @property
    def lag(self) -> int | None:
        """Records behind the committed offsets of all partitions where both are known; None if none are."""
        known = [p.lag for p in self.places if p.lag is not None]
        return sum(known) if known else None

    @property
    def commits(self) -> int:
        """Number of commits in the log."""
        return sum(p.commits for p in self.places)


class Transaction(BaseModel):
    """A transaction that is open at its coordinator, on a partition, or both."""

    state: Literal["open", "hanging", "undecided"]
    transactional_id: str | None
    producer_id: int
    epoch: int | None = None
    partition: str | None = None
    start_offset: int | None = None
    since_us: int | None = None
    words: str = ""


class Topic(BaseModel):
    """A topic that was searched for duplicates."""

    name: str
    records: int = 0
    notes: list[str] = []


class UnderReplicated(BaseModel):
    """A time with fewer replicas in sync. until_us: None if the logs do not show its end."""

    partition: str
    from_us: int
    until_us: int | None
    fewest: list[int]
    missing: list[int]


class Reading(BaseModel):
    """What was fetched, and how fast. rate: the limit in bytes a second."""

    bytes: int = 0
    seconds: float = 0.0
    rate: int = 0

    @property
    def words(self) -> str:
        """The reading as a sentence."""
        speed = _size(self.bytes / self.seconds if self.seconds else 0)
        return (
            f"{_size(self.bytes)} of records were fetched in {self.seconds:.1f} s, {speed} a second; "
            f"the limit is {_size(self.rate)} a second"
        )


def _size(number: float) -> str:
    """Return bytes with a decimal unit, as rates are usually given."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f} B"


class Result(BaseModel):
    """The result for scripts: `result.json`. problems: what could not be read."""

    cluster: str
    made_us: int
    since_us: int | None
    command: str
    verdict: Verdict = "incomplete"
    sentence: str = ""
    findings: Findings = Field(default_factory=Findings)
    groups: list[Group] = []
    transactions: list[Transaction] = []
    topics: list[Topic] = []
    replicas: list[UnderReplicated] = []
    reading: Reading = Field(default_factory=Reading)
    problems: list[str] = []
    notes: list[str] = []
    interrupted: bool = False

    def decide(self) -> None:
        """Set verdict and sentence: a finding decides, then what could not be read."""
        counts = self.findings.counts
        found = [count(counts[kind], KINDS[kind][0]) for kind in KINDS if counts.get(kind)]
        examined = []
        if commits := sum(g.commits for g in self.groups):
            examined.append(f"{count(commits, 'commit')} of {count(len(self.groups), 'group')}")
        examined += [f"{count(t.records, 'record')} of {t.name}" for t in self.topics]
        states = Counter(t.state for t in self.transactions)
        examined += [f"{count(n, f'{s} transaction')}" for s, n in states.items() if s != "hanging"]
        self.verdict = "found" if found else "incomplete" if self.problems or self.interrupted else "nothing found"
        head = ", ".join(found) or (
            "nothing was found" if self.verdict == "nothing found" else "nothing was found so far"
        )
        self.sentence = f"{head}; seen: {', '.join(examined) or 'no commit, record or transaction'}"
        if self.problems:
            self.sentence += f"; {count(len(self.problems), 'part')} could not be read"

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text, the sentence first."""
        yield f"{self.verdict}: {self.sentence}"
        for kind, (title, meaning) in KINDS.items():
            if not (number := self.findings.counts.get(kind)):
                continue
            yield f"{count(number, title)}: {meaning}"
            for f in self.findings.of(kind)[:3]:
                at = "" if f.at_us is None else f"{Clock(0).wall(f.at_us)}, "
                yield f"  {at}{f.where}: {f.words}"
            yield from [f"  and {number - 3:,} more: see the page"] * (number > 3)
        for t in [t for t in self.transactions if t.state != "hanging"][:5]:
            since = "" if t.since_us is None else f" for {duration(self.made_us - t.since_us)}"
            yield f"{t.state} transaction{since}: {t.transactional_id or f'producer id {t.producer_id}'}; {t.words}"
        behind = sorted((g for g in self.groups if g.lag), key=lambda g: -(g.lag or 0))
        yield from (f"lag of {g.name}: {count(g.lag or 0, 'record')}" for g in behind[:5])
        yield from (f"not read: {problem}" for problem in self.problems)
        yield self.reading.words
