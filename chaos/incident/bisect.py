"""Bisection: the first release of brokers or clients with which the outcome changes.

Both ends run first. A release in between is `old` if it shows the same as the older end, else `new`. A release that is
inconclusive, or cannot run the scenario, is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.errors import FAIL, INCONCLUSIVE, PASS, USAGE, AftershockError, ClusterError, UsageError
from chaos.incident import trials
from chaos.incident.difference import merge, parse_anomaly, signature
from chaos.incident.releases import NAMES, SETTINGS, Software, parse_range
from chaos.incident.search import Change, State, first_change
from chaos.incident.subject import Subject, SubjectRequest
from chaos.lab.progress import ProgressListener
from chaos.run.directory import write_atomically
from chaos.run.result import RunOutcome
from chaos.scenario.resolve import new_seed


@dataclass(frozen=True)
class BisectRequest:
    """A subject and a range of releases, `A..B`, of either Kafka or confluent-kafka.

    anomaly: the outcome is whether it appears; when left out, the verdict and the kinds of anomalies.
    tries: runs of each release; all of them count.
    """

    subject: SubjectRequest
    runs_dir: Path
    kafka: str | None = None
    client: str | None = None
    anomaly: str | None = None
    tries: int = 1


@dataclass(frozen=True)
class ReleaseRow:
    """One release, its merged outcome, its state (old, new, skipped) and the ids of its runs."""

    release: str
    outcome: RunOutcome
    state: str = ""
    runs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class BisectResult:
    """The answer, and a row for each release that ran, oldest first. first_new: None if it was not found."""

    software: Software
    sentence: str
    exit_code: int
    rows: list[ReleaseRow]
    first_new: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the content of `bisect.json`."""
        rows = [{"release": r.release, "is": r.state, "runs": r.runs, **r.outcome.model_dump()} for r in self.rows]
        return {"what": NAMES[self.software], "first": self.first_new, "sentence": self.sentence, "rows": rows}


def bisect(
    request: BisectRequest,
    listener: ProgressListener,
    on_failure: Callable[[list[ReleaseRow]], None] = lambda rows: None,
) -> BisectResult:
    """Search for the first release with another outcome, and write `bisect.json`.

    on_failure: called with the rows so far if the search breaks off.
    Raises `UsageError` for a bad request, `ClusterError` if an end is inconclusive, and as `Lab.drive` for the ends.
    """
    if (request.kafka is None) == (request.client is None):
        raise UsageError("give one of --kafka A..B and --client A..B: the releases to search")
    software: Software = "kafka" if request.kafka is not None else "client"
    releases = parse_range(software, request.kafka or request.client or "")
    anomaly = parse_anomaly(request.anomaly) if request.anomaly else None
    subject = request.subject.load()
    seed = new_seed() if subject.seed is None else subject.seed
    folder = trials.new_folder(request.runs_dir, f"bisect-{subject.name}")
    with trials.TrialLab(folder, listener) as lab:
        listener.say(f"{len(releases)} releases of {NAMES[software]}, seed {seed}, in {folder}")
        bisection = Bisection(lab, replace(subject, seed=seed), software, releases, anomaly, request.tries)
        try:
            result = bisection.run()
        except BaseException:
            on_failure(bisection.rows)
            raise
    write_atomically(folder / "bisect.json", json.dumps(result.as_json(), indent=1) + "\n")
    return result


class Bisection:
    """One search over a list of releases, oldest first."""

    def __init__(
        self,
        lab: trials.TrialLab,
        subject: Subject,
        software: Software,
        releases: Sequence[str],
        anomaly: str | None,
        tries: int,
    ) -> None:
        self._lab, self._subject, self._software, self._releases = lab, subject, software, releases
        self._anomaly, self._tries = anomaly, tries
        self._rows: dict[int, ReleaseRow] = {}
        self._old: object = None

    @property
    def rows(self) -> list[ReleaseRow]:
        """The releases that ran so far, oldest first."""
        return [row for _, row in sorted(self._rows.items())]

    def run(self) -> BisectResult:
        """Search. Raises `ClusterError` if an end is inconclusive, and as `Lab.drive` if an end cannot run at all."""
        last = len(self._releases) - 1
        for index in (0, last):
            if not self._test(index, must_run=True).conclusive:
                raise ClusterError(
                    f"{NAMES[self._software]} {self._releases[index]} is inconclusive, and both ends must be "
                    f"conclusive: {self._rows[index].outcome.sentence} See {self._lab.folder}"
                )
        old, new = (self._key(self._rows[index].outcome) for index in (0, last))
        self._old = old
        if old == new:
            same = self._describe(self._rows[0].outcome)
            sentence = f"No change: {self._releases[0]} and {self._releases[last]} show the same: {same}."
            return BisectResult(self._software, sentence, FAIL, self.rows)
        self._set_state(0, "old")
        self._set_state(last, "new")
        return self._result(first_change(len(self._releases), self._state))

    def _result(self, change: Change) -> BisectResult:
        name, first = NAMES[self._software], self._releases[change.first_new]
        before, after = self._rows[change.last_old], self._rows[change.first_new]
        shown = f"{self._describe(before.outcome)} with {before.release}, {self._describe(after.outcome)} with {first}"
        if not change.between:
            sentence = f"{name} {first} is the first with the change: {shown}."
            return BisectResult(self._software, sentence, PASS, self.rows, first)
        candidates = ", ".join([*(self._releases[i] for i in change.between), first])
        sentence = f"The first with the change is one of {candidates}: {shown}, and those in between are inconclusive."
        return BisectResult(self._software, sentence, INCONCLUSIVE, self.rows)

    def _state(self, index: int) -> State:
        outcome = self._test(index)
        state: State = "skip" if not outcome.conclusive else "old" if self._key(outcome) == self._old else "new"
        self._set_state(index, "skipped" if state == "skip" else state)
        return state

    def _set_state(self, index: int, state: str) -> None:
        self._rows[index] = replace(self._rows[index], state=state)

    def _test(self, index: int, must_run: bool = False) -> RunOutcome:
        """Run one release and record its row. A release that cannot run is inconclusive, or raises if it must run."""
        release = self._releases[index]
        outcomes: list[RunOutcome] = []
        runs: list[str] = []
        try:
            subject = self._subject.set(f"{SETTINGS[self._software]}={release!r}")
            for n in range(1, self._tries + 1):
                finished = self._lab.run(subject, f"{self._software}-{release}-{n}")
                outcomes.append(finished.outcome)
                runs.append(finished.run.run_id)
            outcome = merge(outcomes)
        except AftershockError as e:
            if must_run or e.exit_code != USAGE:
                raise
            outcome = RunOutcome.missing(str(e).replace("\n", " "))
        self._rows[index] = ReleaseRow(release, outcome, runs=runs)
        detail = self._describe(outcome) if outcome.conclusive else outcome.sentence
        self._lab.listener.say(f"{NAMES[self._software]} {release}: {detail}")
        return outcome

    def _key(self, outcome: RunOutcome) -> object:
        """Return what must be equal for two releases to show the same."""
        if self._anomaly is not None:
            return outcome.count(self._anomaly) > 0
        return signature(outcome, self._subject.scenario.expect)

    def _describe(self, outcome: RunOutcome) -> str:
        if self._anomaly is not None:
            count = outcome.count(self._anomaly)
            return f"{self._anomaly} {count:,}" if count else f"no {self._anomaly}"
        return f"{outcome.verdict} ({outcome.describe()})"
