"""Shrinking: the smallest scenario that still shows an anomaly. Every step is confirmed by a real run.

Faults and clients are removed first, because the runs that follow are then shorter; then records, numbers (members,
partitions, replicas, brokers) and settings. Faults, clients and settings shrink by `ddmin`, numbers by halves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.campaign import reduce, trials
from chaos.campaign.score import parse_anomaly
from chaos.campaign.search import ddmin, smallest
from chaos.campaign.subject import Raw, Request, Subject, dump, raw_of, scenario_of
from chaos.errors import INCONCLUSIVE, PASS, UsageError
from chaos.lab.progress import ProgressListener
from chaos.run.directory import write_atomically
from chaos.units import parse_duration

SMALLEST_SHARE = 64
"""Records shrink to this fraction of the original at most: a fault needs some to affect."""


class BudgetSpent(Exception):
    """The budget does not allow another run."""


@dataclass(frozen=True)
class Budget:
    """The number of runs and of seconds that may be spent; None is no limit."""

    runs: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Parse `40` (runs), `30m` (time) or `40,30m` (whichever comes first). Raises `UsageError`."""
        budget = cls()
        for part in filter(None, map(str.strip, text.split(","))):
            try:
                values = {"runs": int(part)} if part.isdigit() else {"seconds": parse_duration(part)}
            except ValueError:
                raise UsageError(f"--budget {text!r} is not understood; write 40 (runs), 30m, or 40,30m") from None
            budget = replace(budget, **values)
        if budget == cls() or budget.runs == 0 or budget.seconds == 0:
            raise UsageError(f"--budget {text!r} allows no run; write 40 (runs), 30m, or 40,30m")
        return budget


@dataclass
class ShrinkResult:
    """The smallest scenario so far. text: the YAML of `file`, empty if the anomaly never appeared."""

    file: Path
    sentence: str = ""
    text: str = ""
    size: str = ""
    runs: int = 0

    @property
    def exit_code(self) -> int:
        """0 if there is a scenario, else 3."""
        return PASS if self.text else INCONCLUSIVE


def shrink(
    request: Request, listener: ProgressListener, report: Callable[[ShrinkResult], None] = lambda result: None
) -> ShrinkResult:
    """Search for the smallest scenario with the anomaly; `smallest.yaml` has the smallest so far at any time.

    report: called with the result at the end, also if the search breaks off with a scenario.
    Raises `UsageError`, `ScenarioError` or `RunDirError` for a bad request, and as `Lab.drive`.
    """
    subject = request.subject()
    anomaly, budget, tries = (
        parse_anomaly(request.anomaly, subject.scenario),
        Budget.parse(request.budget),
        request.tries,
    )
    if subject.outcome is not None and not subject.outcome.count(anomaly):
        raise UsageError(f"{request.source} showed no {anomaly}: it showed {subject.outcome.describe()}")
    with trials.new_lab("shrink", subject, request, listener) as lab:
        listener.say(f"{anomaly} remains if one of {tries} tries shows it; budget {request.budget}; in {lab.folder}")
        whole, result = starting_point(subject), ShrinkResult(lab.folder / "smallest.yaml")

        def save(candidate: Raw) -> None:
            result.text, result.size = final_text(subject, candidate, anomaly), size(whole, candidate)
            write_atomically(result.file, result.text)

        search = Search(whole, Oracle(lab, subject, anomaly, tries, budget).remains, listener.say, save)
        try:
            if search.begin():
                search.run()
                result.sentence = "nothing more can be removed"
            else:
                result.sentence = f"{anomaly} did not appear in {tries} runs of the whole scenario"
        except BudgetSpent as spent:
            result.sentence = f"the budget is spent ({spent}); more could perhaps be removed"
        finally:
            result.runs = lab.run_count
            if result.text:
                report(result)
                listener.say(f"the smallest scenario {'' if search.complete else 'so far '}is in {result.file}")
            if result.sentence:
                listener.say(result.sentence)
    return result


@dataclass
class Search:
    """A search for the smallest scenario with which `remains` holds. best: the smallest so far."""

    best: Raw
    remains: Callable[[Raw], bool]
    say: Callable[[str], None]
    save: Callable[[Raw], None]
    """Receives every new `best`."""
    results: dict[str, bool] = field(default_factory=dict)
    complete: bool = False
    """Whether nothing more can be removed, as far as the search tries."""

    def begin(self) -> bool:
        """Return whether the anomaly appears in the whole scenario."""
        return self._try(self.best)

    def run(self) -> None:
        """Search to the end. Exceptions of `remains`, such as `BudgetSpent`, pass through."""
        whole = self.best
        self._shrink_parts("faults and clients", reduce.entries(whole), lambda kept: reduce.keep_entries(whole, kept))
        self._shrink_records()
        self._shrink_numbers()
        smaller = self.best
        settings = reduce.settings(smaller)
        self._shrink_parts(
            "settings",
            settings,
            lambda kept: reduce.without_settings(smaller, [part for part in settings if part not in kept]),
        )
        self.complete = True

    def _try(self, candidate: Raw) -> bool:
        text = dump(candidate)
        if text not in self.results:
            self.results[text] = scenario_of(candidate, "candidate") is not None and self.remains(candidate)
        if self.results[text]:
            self.best = candidate
            self.save(candidate)
        return self.results[text]

    def _shrink_parts(
        self, kind: str, parts: Sequence[reduce.Part], with_only: Callable[[Sequence[reduce.Part]], Raw]
    ) -> None:
        self.say(f"{len(parts)} {kind}")
        needed = ddmin(parts, lambda kept: self._try(with_only(kept)))
        self.say(f"needed: {', '.join(map(str, needed)) or 'none'}")

    def _shrink_records(self) -> None:
        whole = self.best
        first = reduce.records(whole)
        low = max(1, first // SMALLEST_SHARE)
        least = smallest(first, low, lambda n: self._try(reduce.with_records(whole, n)))
        self.say(f"records: {least:,} of {first:,}")

    def _shrink_numbers(self) -> None:
        for part, value in list(reduce.numbers(self.best)):
            whole = self.best

            def lowered(n: int, whole: Raw = whole, part: reduce.Part = part) -> bool:
                return self._try(reduce.with_number(whole, part, n))

            least = 1 if lowered(1) else smallest(value, 2, lowered)
            if least < value:
                self.say(f"{part}: {least} instead of {value}")


@dataclass
class Oracle:
    """Answers whether an anomaly remains in a candidate: whether at least one of `tries` real runs shows it.

    An accepted candidate has shown the anomaly. A rejected one may show it rarely, so with few tries the result may be
    larger than necessary, but it is never too small.
    """

    lab: trials.TrialLab
    subject: Subject
    anomaly: str
    tries: int
    budget: Budget
    started: float = field(default_factory=time.monotonic)
    candidates: int = 0

    def remains(self, raw: Raw) -> bool:
        """Run the candidate up to `tries` times. Raises `BudgetSpent` if the budget does not allow another run."""
        scenario = scenario_of(raw, "candidate")
        assert scenario is not None  # the search asks for valid ones only
        self.candidates += 1
        candidate = replace(self.subject, scenario=scenario)
        for n in range(1, self.tries + 1):
            if self.budget.runs is not None and self.lab.run_count >= self.budget.runs:
                raise BudgetSpent(f"{self.budget.runs} runs")
            if self.budget.seconds is not None and time.monotonic() - self.started >= self.budget.seconds:
                raise BudgetSpent(f"{self.budget.seconds:g} s")
            finished = self.lab.run(candidate, f"{self.candidates:03}-{n}")
            outcome = finished.outcome
            count = outcome.count(self.anomaly) if outcome.conclusive else 0
            detail = f"{self.anomaly} {count:,}" if count else f"no {self.anomaly} ({outcome.verdict})"
            self.lab.listener.say(
                f"run {self.lab.run_count}, candidate {self.candidates}: {detail}, {finished.seconds:.0f} s"
            )
            if count:
                return True
        return False


def starting_point(subject: Subject) -> Raw:
    """Return the scenario that the search starts from."""
    raw = raw_of(subject.scenario)
    raw.pop("description", None)
    return raw


def final_text(subject: Subject, raw: Raw, anomaly: str) -> str:
    """Return the smallest scenario as YAML, with its seed and a description."""
    description = f"Shrunk from {subject.name}: a run of exactly this scenario showed {anomaly}."
    return dump({**raw, "description": description, "seed": subject.seed})


def size(whole: Raw, best: Raw) -> str:
    """Return the size of the smallest scenario next to the original's, as text."""

    def counts(raw: Raw) -> tuple[int, int, int]:
        return len(reduce.entries(raw)), reduce.records(raw), len(reduce.settings(raw))

    labels = ("faults and clients", "records", "settings")
    sizes = zip(counts(best), counts(whole), labels, strict=True)
    return ", ".join(f"{left:,} of {before:,} {label}" for left, before, label in sizes) + " are left"
