"""Shrinking: the smallest scenario that still shows an anomaly. Every step is confirmed by a real run.

Faults and clients are removed first, because the runs that follow are then shorter; then records, numbers (members,
partitions, replicas, brokers) and settings. Faults, clients and settings shrink by `ddmin`, numbers by halves.

The plan repeats the search over the stored runs until the search asks for a candidate that has not run.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from chaos.campaign import reduce
from chaos.campaign.engine import Budget, Plan, Report, Trial, Wanted, conduct, digest_of
from chaos.campaign.folder import Folder, resumed
from chaos.campaign.score import parse_anomaly, tally, this_machine
from chaos.campaign.search import ddmin, smallest
from chaos.campaign.subject import Raw, Request, Subject, dump, raw_of, scenario_of
from chaos.errors import UsageError
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import PartsResult, TrialRun
from chaos.run.directory import write_atomically
from chaos.run.events import now_us
from chaos.scenario.model import Scenario

KIND, SMALLEST = "shrink", "smallest.yaml"
TRIES, BUDGET = 2, "60,60m"
"""Runs of a candidate before it counts as one without the anomaly, and the budget, unless the request has others."""
SMALLEST_SHARE = 64
"""Records shrink to this fraction of the original at most: a fault needs some to affect."""


def shrink(request: Request, listener: ProgressListener, report: Report[PartsResult] | None = None) -> PartsResult:
    """Search for the smallest scenario with the anomaly; `smallest.yaml` has the smallest so far at any time.

    The answer of the result is the scenario as YAML; empty if the whole one never showed the anomaly.
    Raises `UsageError`, `ScenarioError` or `RunDirError` for a bad request, and as `Lab.drive`.
    """
    asked = resumed(request, KIND)
    asked = replace(asked, budget=asked.budget or BUDGET)
    Budget.parse(asked.budget)
    subject = asked.subject()
    asked = asked.fixed(subject)
    anomaly, tries = parse_anomaly(asked.anomaly, subject.scenario), asked.repeat or TRIES
    if subject.outcome is not None and not subject.changes and not subject.outcome.count(anomaly):
        raise UsageError(f"{asked.source} showed no {anomaly}: it showed {subject.outcome.describe()}")
    parts = [{"name": subject.name, "digest": digest_of(subject.scenario), "anomaly": anomaly, "runs": str(tries)}]
    folder = Folder.planned(asked, KIND, f"{KIND}-{subject.name}", parts)
    listener.say(f"{anomaly} remains if one of {tries} runs shows it")
    plan = Shrinking(subject, anomaly, tries, folder, listener.say)

    def judge(runs: list[TrialRun]) -> PartsResult:
        return plan.result(runs, _command(asked, tries))

    result = conduct(plan, folder, asked, listener, judge, report)
    listener.say(result.sentence)
    if result.answer:
        listener.say(f"the smallest scenario so far is in {folder.path / SMALLEST}")
    return result


@dataclass
class Shrinking(Plan):
    """The candidates of a search, one after another. A candidate keeps the anomaly if one of `tries` runs shows it.

    An accepted candidate has shown the anomaly. A rejected one may show it rarely, so with few tries the result may be
    larger than necessary, but it is never too small.
    """

    bundles = False

    subject: Subject
    anomaly: str
    tries: int
    folder: Folder
    say: Callable[[str], None]
    _said: int = 0
    _parsed: dict[str, Scenario | None] = field(default_factory=dict)

    def trials(self, runs: Sequence[TrialRun]) -> Sequence[Trial]:
        """Return the run that the search needs next; none if it is complete. Writes the smallest scenario so far."""
        search, wanted = self.search(runs)
        if search.found:
            write_atomically(self.folder.path / SMALLEST, self._text(search.best))
        return [] if wanted is None else wanted.trials

    def search(self, runs: Sequence[TrialRun]) -> tuple[Search, Wanted | None]:
        """Search with the stored runs as the oracle, and return the search and what it lacks."""
        lines: list[str] = []
        oracle = Oracle(self.subject, lambda run: shown(run, self.anomaly) > 0, self.tries, runs)
        search = Search(starting_point(self.subject), oracle.remains, lines.append, self._scenario_of)
        try:
            if search.begin():
                search.run()
        except Wanted as wanted:
            return search, wanted
        finally:
            for line in lines[self._said :]:
                self.say(line)
            self._said = max(self._said, len(lines))
        return search, None

    def describe(self, run: TrialRun) -> str:
        """Return whether a run shows the anomaly."""
        count = shown(run, self.anomaly)
        return f"{self.anomaly} {count:,}" if count else f"no {self.anomaly} ({run.verdict})"

    def result(self, runs: list[TrialRun], command: str) -> PartsResult:
        """Return the smallest scenario that the runs have shown, and whether more could be removed."""
        search, wanted = self.search(runs)
        if search.found:
            sizes = f"{size(starting_point(self.subject), search.best)}; {len(runs)} runs"
            more = "nothing more can be removed" if search.complete else "more could perhaps be removed"
            sentence = f"{sizes}; {more}."
        elif wanted is not None:
            sentence = "The whole scenario has no verdict yet."
        else:
            sentence = f"{self.anomaly} did not appear in {self.tries} runs of the whole scenario."
        names = list(dict.fromkeys(run.part for run in runs))
        by_name = {name: [run for run in runs if run.part == name] for name in names}
        parts = [tally(name, own) for name, own in by_name.items()]
        states = {name: "shows it" if any(shown(r, self.anomaly) for r in own) else "" for name, own in by_name.items()}
        return PartsResult(
            kind=KIND,
            title=f"The smallest scenario with {self.anomaly}: {self.subject.name}",
            verdict="pass" if search.found else "inconclusive",
            sentence=sentence,
            command=command,
            machine=this_machine(),
            made_us=now_us(),
            seed=self.subject.seed,
            repeat=self.tries,
            parts=[part.model_copy(update={"state": states[part.name]}) for part in parts],
            answer=self._text(search.best) if search.found else "",
        )

    def _text(self, raw: Raw) -> str:
        return final_text(self.subject, raw, self.anomaly)

    def _scenario_of(self, text: str, raw: Raw) -> Scenario | None:
        if text not in self._parsed:
            self._parsed[text] = scenario_of(raw)
        return self._parsed[text]


def shown(run: TrialRun, anomaly: str) -> int:
    """Return how often a run shows an anomaly; what an inconclusive run shows does not count."""
    return run.count(anomaly) if run.conclusive else 0


@dataclass
class Oracle:
    """Answers from stored runs whether what is looked for remains in a candidate.

    shows: whether a run shows it. prefix: of the names of the runs, if a campaign has several searches.
    """

    subject: Subject
    shows: Callable[[TrialRun], bool]
    tries: int
    runs: Sequence[TrialRun]
    prefix: str = ""
    candidates: int = 0
    shown_by: TrialRun | None = None
    """The run of the last candidate in which it remained."""

    def remains(self, raw: Raw, scenario: Scenario) -> bool:
        """Return whether a run of the candidate shows it. Raises `Wanted` for a run that is missing."""
        self.candidates += 1
        part = f"{self.prefix}{self.candidates:03}-{sha256(dump(raw).encode()).hexdigest()[:4]}"
        own = [run for run in self.runs if run.part == part]
        if showing := next(filter(self.shows, own), None):
            self.shown_by = showing
            return True
        if len(own) >= self.tries:
            return False
        n = len(own) + 1
        title = f"{self.prefix}candidate {self.candidates}, run {n}"
        raise Wanted([Trial(f"{part}-{n}", replace(self.subject, scenario=scenario), part, n, title)])


@dataclass
class Search:
    """A search for the smallest scenario with which `remains` holds. best: the smallest so far."""

    best: Raw
    remains: Callable[[Raw, Scenario], bool]
    say: Callable[[str], None]
    parse: Callable[[str, Raw], Scenario | None]
    """Returns the scenario of a candidate, given as text and as data; None if it is not valid."""
    results: dict[str, bool] = field(default_factory=dict)
    found: bool = False
    """Whether `best` has shown the anomaly."""
    complete: bool = False
    """Whether nothing more can be removed, as far as the search tries."""

    def begin(self) -> bool:
        """Return whether the anomaly appears in the whole scenario."""
        return self._try(self.best)

    def run(self) -> None:
        """Search to the end. Exceptions of `remains`, such as `Wanted`, pass through."""
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

    def shrink_faults(self) -> None:
        """Remove only faults. Exceptions of `remains`, such as `Wanted`, pass through."""
        whole = self.best
        faults, others = reduce.faults_and_others(whole)
        self._shrink_parts("faults", faults, lambda kept: reduce.keep_entries(whole, [*others, *kept]))
        self.complete = True

    def _try(self, candidate: Raw) -> bool:
        text = dump(candidate)
        if text not in self.results:
            scenario = self.parse(text, candidate)
            self.results[text] = scenario is not None and self.remains(candidate, scenario)
        if self.results[text]:
            self.best, self.found = candidate, True
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


def _command(asked: Request, tries: int) -> str:
    words = ["python", "-m", "chaos", KIND, asked.source, "--anomaly", asked.anomaly, "--repeat", str(tries)]
    return shlex.join([*words, *asked.options()])
