"""A comparison of topics on two sides, which exist: what is asked, and what was found. Files of its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from chaos.errors import FAIL, INCONCLUSIVE, PASS
from chaos.kafka.security import Security
from chaos.run.directory import Run, read_json, write_atomically

FILE = "comparison.json"
Verdict = Literal["equal", "differs", "inconclusive"]
EXIT_CODES: dict[Verdict, int] = {"equal": PASS, "differs": FAIL, "inconclusive": INCONCLUSIVE}
KINDS: dict[str, str] = {
    "missing": "in A, and not in B",
    "extra": "in B, and not in A",
    "duplicated": "more often in B than in A",
    "altered": "another value or other headers under its key",
    "altered_key": "another key for the same value, headers and timestamp",
    "moved": "in another partition of B",
    "reordered": "in another order in B",
    "retimed": "another timestamp in B",
    "behind": "at the end of A, and not (yet) in B: records were written meanwhile",
    "unknown": "not comparable: the other side may have removed it by retention, or not have committed it yet",
}
"""What can be found of a record, and what it means."""
DIFFERENCES = ("missing", "extra", "duplicated", "altered", "altered_key", "moved", "reordered")


SettingValues = tuple[str | None, str | None]
"""The value of a setting in A and in B; None if the release of a side does not have the setting."""


class Side(BaseModel):
    """A cluster. security: names secrets, and has none."""

    model_config = ConfigDict(extra="forbid")

    bootstrap: str
    security: Security


class Topics(BaseModel):
    """A topic of A, and the topic of B that should have its records."""

    model_config = ConfigDict(extra="forbid")

    a: str
    b: str

    @property
    def name(self) -> str:
        """The pair for people."""
        return self.a if self.a == self.b else f"{self.a} : {self.b}"


class Pair(Topics):
    """Two topics, and what decides how their records are matched. settings: those with other values in B."""

    partitions: tuple[int, int]
    compacted: bool = False
    settings: dict[str, SettingValues] = {}

    @property
    def whole(self) -> bool:
        """Whether records are matched over the whole topic: partitions of the sides do not correspond."""
        return self.partitions[0] != self.partitions[1]

    @property
    def matching(self) -> str:
        """How its records are matched, for people."""
        if self.compacted:
            how = "compacted: the last value of each key is compared, and a tombstone is no value; no order"
        else:
            how = "by key and content, the n-th copy in A with the n-th in B"
        if self.whole:
            how += f"; A has {self.partitions[0]} partitions and B {self.partitions[1]}: over the whole topic, no order"
        return how


class Comparison(BaseModel):
    """What is asked.

    rate: bytes read a second, of both sides together. timestamps, settings: whether another timestamp of a record, or
    another value of a topic's setting, is a difference. examples: records named for each kind and topic. every_s: time
    from round to round; None: it is one.
    """

    model_config = ConfigDict(extra="forbid")

    a: Side
    b: Side
    pairs: list[Pair]
    rate: float | None = None
    timestamps: bool = False
    settings: bool = False
    examples: int = 5
    every_s: float | None = None

    def save(self, run: Run) -> None:
        """Write the file."""
        write_atomically(run.path / FILE, self.model_dump_json(indent=1))


def compared(path: Path) -> Comparison | None:
    """Return what is asked in a folder; None if it is no folder of a comparison. Raises `RunDirError`."""
    if not comparison_in(path):
        return None
    return Comparison.model_validate(read_json(path / FILE, "what a comparison is asked"))


def comparison_in(path: str | Path) -> bool:
    """Return whether a path is the folder of a comparison; a URI is none."""
    return (Path(path) / FILE).is_file()


class Example(BaseModel):
    """A record that is not the same on both sides, with its places; a side without it has None."""

    kind: str
    partitions: tuple[int | None, int | None] = (None, None)
    offsets: tuple[int | None, int | None] = (None, None)
    times_ms: tuple[int | None, int | None] = (None, None)
    key: str | None = None
    detail: str = ""


class PartitionCounts(BaseModel):
    """One partition. records: read of A and B. found: by kind; of A's partition, or of B's if A lacks the record."""

    partition: int
    records: tuple[int, int] = (0, 0)
    matched: int = 0
    found: dict[str, int] = {}


class TopicResult(Topics):
    """What was found in two topics. shifts_ms: the smallest and the largest difference of timestamps, B minus A.
    settings: as in `Pair`."""

    matching: str
    partitions: list[PartitionCounts]
    examples: list[Example] = []
    shifts_ms: tuple[int, int] | None = None
    settings: dict[str, SettingValues] = {}
    notes: list[str] = []

    @property
    def records(self) -> tuple[int, int]:
        """The records that were read of A and of B."""
        return sum(p.records[0] for p in self.partitions), sum(p.records[1] for p in self.partitions)

    @property
    def matched(self) -> int:
        """The records that are the same on both sides."""
        return sum(p.matched for p in self.partitions)

    @property
    def found(self) -> dict[str, int]:
        """The number of records of each kind that was found."""
        totals = {kind: sum(p.found.get(kind, 0) for p in self.partitions) for kind in KINDS}
        return {kind: count for kind, count in totals.items() if count}

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text."""
        a, b = self.records
        yield f"{self.name}: {a:,} records in A, {b:,} in B, {self.matched:,} the same; {self.matching}"
        for kind, count in self.found.items():
            at = [f"{p.partition} ({p.found[kind]:,})" for p in self.partitions if p.found.get(kind)]
            more = f" and {len(at) - 8} more" if len(at) > 8 else ""
            yield f"  {kind.replace('_', ' ')}: {count:,} {KINDS[kind]}; partition {', '.join(at[:8])}{more}"
            yield from (f"    {_example(e)}" for e in self.examples if e.kind == kind)
        if self.shifts_ms:
            yield f"  timestamps of B minus A: {self.shifts_ms[0]:,} to {self.shifts_ms[1]:,} ms"
        for name, values in self.settings.items():
            of_a, of_b = ("not known to its release" if value is None else value or "empty" for value in values)
            yield f"  setting {name}: {of_a} in A, {of_b} in B"
        yield from (f"  note: {note}" for note in self.notes)


class ComparisonResult(BaseModel):
    """The result for scripts: `result.json`. rounds: how many a comparison has had that goes on; None: it is one."""

    verdict: Verdict
    sentence: str
    created_us: int
    seconds: float
    topics: list[TopicResult]
    rounds: int | None = None

    @classmethod
    def of(
        cls, asked: Comparison, topics: list[TopicResult], created_us: int, seconds: float, rounds: int | None = None
    ) -> ComparisonResult:
        """Return the result with its verdict: a difference decides, then what could not be compared.

        The next round decides what is behind in this one.
        """
        differing = [*DIFFERENCES, *(("retimed",) if asked.timestamps else ())]
        found = {kind: sum(t.found.get(kind, 0) for t in topics) for kind in KINDS}
        wrong = [f"{found[kind]:,} {kind.replace('_', ' ')}" for kind in differing if found[kind]]
        if asked.settings and (settings := sum(len(t.settings) for t in topics)):
            wrong.append(f"{settings} setting{'s' * (settings > 1)} of topics")
        verdict: Verdict = "differs" if wrong else "equal"
        said = ", ".join(wrong)
        matched, behind = sum(t.matched for t in topics), found["behind"]
        if not wrong and found["unknown"]:
            verdict = "inconclusive"
            said = f"{found['unknown']:,} records are not comparable, see the notes"
        elif not wrong and behind and rounds is None:
            verdict, said = "inconclusive", "records were written meanwhile; compare again when no application writes"
        elif not wrong and not any(sum(t.records) for t in topics):
            verdict, said = "inconclusive", "there is no record on either side"
        said = said or "no difference"
        sentence = f"{said}; {matched:,} records are the same" + (f", {behind:,} are behind" if behind else "")
        return cls(
            verdict=verdict, sentence=sentence, created_us=created_us, seconds=seconds, topics=topics, rounds=rounds
        )

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text."""
        for topic in self.topics:
            yield from topic.lines()
        yield self.line()

    def line(self) -> str:
        """Return the verdict and the sentence as a line."""
        many = f"{self.rounds:,} round{'s' if self.rounds > 1 else ''}, " if self.rounds else ""
        return f"{self.verdict}: {self.sentence} ({many}{self.seconds:.0f} s)"


def _example(example: Example) -> str:
    places = [
        f"{side} {example.partitions[i]}@{offset}"
        for i, side in enumerate("AB")
        if (offset := example.offsets[i]) is not None
    ]
    key = "no key" if example.key is None else f"key {example.key!r}"
    return f"{' : '.join(places)}, {key}{f', {example.detail}' if example.detail else ''}"
