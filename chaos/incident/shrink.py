"""Shrinking: the smallest scenario that still shows an anomaly, each step of it seen in a real run.

Faults and clients are left out first, for the runs that follow are then shorter and plainer; then records, numbers
(members, partitions, replicas, brokers) and settings. Faults, clients and settings by `ddmin`, numbers by halves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from chaos.errors import UsageError
from chaos.incident import reduce
from chaos.incident.lab import Lab
from chaos.incident.search import ddmin, smallest
from chaos.incident.subject import Raw, Subject, dump, raw_of, scenario_of
from chaos.units import parse_duration

FEWEST_SHARE = 64
"""Records are not brought below this part of what they were: a fault needs some to hit."""

Stays = Callable[[Raw], bool]


class Spent(Exception):
    """The budget is spent."""


@dataclass
class Search:
    """A search for the smallest scenario; `best` is the smallest so far, whenever it is looked at."""

    best: Raw
    stays: Stays
    say: Callable[[str], None]
    keep: Callable[[Raw], None]
    """Given every new `best`, to put it somewhere safe."""
    asked: dict[str, bool] = field(default_factory=dict)
    ended: bool = False
    """Whether nothing more can be left out, as far as was tried."""

    def begin(self) -> bool:
        """Whether what is looked for is there at all."""
        return self._try(self.best)

    def run(self) -> None:
        """Search to the end. `Spent`, and whatever else `stays` raises, is passed on."""
        self._entries()
        self._records()
        self._numbers()
        self._settings()
        self.ended = True

    def _try(self, candidate: Raw) -> bool:
        text = dump(candidate)
        if text not in self.asked:
            self.asked[text] = scenario_of(candidate, "candidate") is not None and self.stays(candidate)
        if self.asked[text]:
            self.best = candidate
            self.keep(candidate)
        return self.asked[text]

    def _entries(self) -> None:
        whole = self.best
        parts = reduce.entries(whole)
        self.say(f"{len(parts)} faults and clients")
        needed = ddmin(parts, lambda kept: self._try(reduce.keep_entries(whole, kept)))
        self.say(f"needed: {_words(needed)}")

    def _records(self) -> None:
        whole = self.best
        first = reduce.records(whole)
        low = max(1, first // FEWEST_SHARE)
        least = smallest(first, low, lambda n: self._try(reduce.with_records(whole, n)))
        self.say(f"records: {least:,} of {first:,}")

    def _numbers(self) -> None:
        for part, value in list(reduce.numbers(self.best)):
            whole = self.best

            def lowered(n: int, whole: Raw = whole, part: reduce.Part = part) -> bool:
                return self._try(reduce.with_number(whole, part, n))

            least = 1 if lowered(1) else smallest(value, 2, lowered)
            if least < value:
                self.say(f"{part.words()}: {least} instead of {value}")

    def _settings(self) -> None:
        whole = self.best
        parts = reduce.settings(whole)
        self.say(f"{len(parts)} settings")

        def kept(some: Sequence[reduce.Part]) -> bool:
            return self._try(reduce.without_settings(whole, [part for part in parts if part not in some]))

        needed = ddmin(parts, kept)
        self.say(f"needed: {_words(needed)}")


def _words(parts: Sequence[reduce.Part]) -> str:
    return ", ".join(part.words() for part in parts) or "none"


@dataclass
class Budget:
    """How many runs, and how many seconds, may be spent; None is no limit."""

    runs: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read `40` (runs), `30m` (time) or `40,30m` (whichever comes first). Raises `UsageError`."""
        found = cls()
        for part in filter(None, (p.strip() for p in text.split(","))):
            try:
                found = (
                    replace(found, runs=int(part)) if part.isdigit() else replace(found, seconds=parse_duration(part))
                )
            except ValueError:
                raise UsageError(f"--budget {text!r} is not understood; write 40 (runs), 30m, or 40,30m") from None
        if found == cls() or found.runs == 0 or found.seconds == 0:
            raise UsageError(f"--budget {text!r} leaves nothing to spend; write 40 (runs), 30m, or 40,30m")
        return found


@dataclass
class Oracle:
    """Says whether an anomaly stays in a candidate: whether at least one of so many real runs shows it.

    Whatever is accepted was seen. What was not seen in any of them is taken as gone, so with a rare anomaly and few
    tries the scenario that is found may be larger than need be, and never smaller.
    """

    lab: Lab
    subject: Subject
    anomaly: str
    tries: int
    budget: Budget
    began: float = field(default_factory=time.monotonic)
    candidates: int = 0

    def stays(self, raw: Raw) -> bool:
        """Run the candidate, up to `tries` times. Raises `Spent` where the budget does not allow another run."""
        scenario = scenario_of(raw, "candidate")
        assert scenario is not None  # the search asks for sound ones
        self.candidates += 1
        candidate = replace(self.subject, scenario=scenario)
        for n in range(1, self.tries + 1):
            if self.budget.runs is not None and self.lab.runs >= self.budget.runs:
                raise Spent(f"{self.budget.runs} runs")
            if self.budget.seconds is not None and time.monotonic() - self.began >= self.budget.seconds:
                raise Spent(f"{self.budget.seconds:g} s")
            trial = self.lab.trial(candidate, f"{self.candidates:03}-{n}")
            count = trial.seen.count(self.anomaly) if trial.seen.conclusive else 0
            shown = f"{self.anomaly} {count:,}" if count else f"no {self.anomaly} ({trial.seen.verdict})"
            self.lab.told.say(f"run {self.lab.runs}, candidate {self.candidates}: {shown}, {trial.seconds:.0f} s")
            if count:
                return True
        return False


def final(subject: Subject, raw: Raw, anomaly: str) -> str:
    """The smallest scenario as a file for people: with its seed, and what it is."""
    words = f"Shrunk from {subject.name}: {anomaly} was seen in this very scenario."
    return dump({**raw, "description": words, **({"seed": subject.seed} if subject.seed is not None else {})})


def left_out(whole: Raw, best: Raw) -> str:
    """How much smaller it became, in words."""

    def counted(raw: Raw) -> tuple[int, int, int]:
        return len(reduce.entries(raw)), reduce.records(raw), len(reduce.settings(raw))

    (parts, records, settings), (parts_, records_, settings_) = counted(whole), counted(best)
    return (
        f"{parts_} of {parts} faults and clients, {records_:,} of {records:,} records, "
        f"{settings_} of {settings} settings are left"
    )


def start(subject: Subject) -> Raw:
    """Where a search for a subject begins."""
    raw = raw_of(subject.scenario)
    raw.pop("description", None)
    return raw
