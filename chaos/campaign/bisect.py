"""Bisection: the first release of brokers or clients with which the outcome changes.

Both ends run first. A release in between is `old` if it shows the same as the older end, else `new`. A release that is
inconclusive, or cannot run the scenario, is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.campaign import trials
from chaos.campaign.releases import Axis, client_axis, kafka_axis
from chaos.campaign.score import merge, parse_anomaly, signature
from chaos.campaign.search import Change, State, first_change
from chaos.campaign.subject import Request, Subject
from chaos.errors import FAIL, INCONCLUSIVE, PASS, USAGE, AftershockError, ClusterError, UsageError
from chaos.lab.lab import FinishedRun
from chaos.lab.progress import ProgressListener
from chaos.run.directory import write_json
from chaos.run.outcome import RunOutcome


@dataclass
class ReleaseRow:
    """One release, its merged outcome, its state (old, new, skipped) and the ids of its runs."""

    release: str
    outcome: RunOutcome
    state: str = ""
    runs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class BisectResult:
    """The answer, and a row for each release that ran, oldest first. first_new: None if it was not found."""

    software: str
    sentence: str
    exit_code: int
    rows: list[ReleaseRow]
    first_new: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the content of `bisect.json`."""
        rows = [{"release": r.release, "is": r.state, "runs": r.runs, **r.outcome.model_dump()} for r in self.rows]
        return {"what": self.software, "first": self.first_new, "sentence": self.sentence, "rows": rows}


def bisect(
    request: Request,
    listener: ProgressListener,
    on_failure: Callable[[list[ReleaseRow]], None] = lambda rows: None,
) -> BisectResult:
    """Search for the first release with another outcome, and write `bisect.json`.

    on_failure: called with the rows so far if the search breaks off.
    Raises `UsageError` for a bad request, `ClusterError` if an end is inconclusive, and as `Lab.drive` for the ends.
    """
    if (request.kafka is None) == (request.client is None):
        raise UsageError("give one of --kafka A..B and --client RUNTIME:A..B: the releases to search")
    axis = kafka_axis(request.kafka) if request.kafka is not None else client_axis(request.client or "")
    subject = request.subject()
    anomaly = parse_anomaly(request.anomaly, subject.scenario) if request.anomaly else None
    with trials.new_lab("bisect", subject, request, listener) as lab:
        listener.say(f"{len(axis.releases)} releases of {axis.name}, seed {subject.seed}, in {lab.folder}")
        bisection = Bisection(lab, subject, axis, anomaly, request.tries)
        try:
            result = bisection.run()
        except BaseException:
            on_failure(bisection.rows)
            raise
    write_json(lab.folder / "bisect.json", result.as_json())
    return result


@dataclass
class Bisection:
    """One search over a list of releases. anomaly: the one that decides; None for the outcome."""

    lab: trials.TrialLab
    subject: Subject
    axis: Axis
    anomaly: str | None
    tries: int
    _rows: dict[int, ReleaseRow] = field(default_factory=dict)
    _old: object = None

    @property
    def rows(self) -> list[ReleaseRow]:
        """The releases that ran so far, oldest first."""
        return [row for _, row in sorted(self._rows.items())]

    def run(self) -> BisectResult:
        """Search. Raises `ClusterError` if an end is inconclusive, and as `Lab.drive` if an end cannot run at all."""
        last = len(self.axis.releases) - 1
        for index in (0, last):
            if not self._test(index, must_run=True).conclusive:
                raise ClusterError(
                    f"{self.axis.name} {self.axis.releases[index]} is inconclusive, and both ends must be "
                    f"conclusive: {self._rows[index].outcome.sentence} See {self.lab.folder}"
                )
        self._old = self._key(self._rows[0].outcome)
        if self._old == self._key(self._rows[last].outcome):
            same = self._describe(self._rows[0].outcome)
            sentence = f"No change: {self.axis.releases[0]} and {self.axis.releases[last]} show the same: {same}."
            return BisectResult(self.axis.name, sentence, FAIL, self.rows)
        self._rows[0].state, self._rows[last].state = "old", "new"
        return self._result(first_change(len(self.axis.releases), self._state))

    def _result(self, change: Change) -> BisectResult:
        name, first = self.axis.name, self.axis.releases[change.first_new]
        before, after = self._rows[change.last_old], self._rows[change.first_new]
        shown = f"{self._describe(before.outcome)} with {before.release}, {self._describe(after.outcome)} with {first}"
        if not change.between:
            sentence = f"{name} {first} is the first with the change: {shown}."
            return BisectResult(self.axis.name, sentence, PASS, self.rows, first)
        candidates = ", ".join([*(self.axis.releases[i] for i in change.between), first])
        sentence = f"The first with the change is one of {candidates}: {shown}, and those in between are inconclusive."
        return BisectResult(self.axis.name, sentence, INCONCLUSIVE, self.rows)

    def _state(self, index: int) -> State:
        outcome = self._test(index)
        state: State = "skip" if not outcome.conclusive else "old" if self._key(outcome) == self._old else "new"
        self._rows[index].state = "skipped" if state == "skip" else state
        return state

    def _test(self, index: int, must_run: bool = False) -> RunOutcome:
        """Run one release and record its row. A release that cannot run is inconclusive, or raises if it must run."""
        release = self.axis.releases[index]
        finished: list[FinishedRun] = []
        try:
            subject = self.subject.set(*self.axis.overrides(self.subject.scenario, release))
            for n in range(1, self.tries + 1):
                finished.append(self.lab.run(subject, f"{self.axis.software}-{release}-{n}"))
            outcome = merge(one.outcome for one in finished)
        except AftershockError as e:
            if must_run or e.exit_code != USAGE:
                raise
            outcome = RunOutcome.missing(str(e).replace("\n", " "))
        self._rows[index] = ReleaseRow(release, outcome, runs=[one.run.run_id for one in finished])
        detail = self._describe(outcome) if outcome.conclusive else outcome.sentence
        self.lab.listener.say(f"{self.axis.name} {release}: {detail}")
        return outcome

    def _key(self, outcome: RunOutcome) -> object:
        """Return what must be equal for two releases to show the same."""
        if self.anomaly is not None:
            return outcome.count(self.anomaly) > 0
        return signature(outcome, self.subject.scenario)

    def _describe(self, outcome: RunOutcome) -> str:
        if self.anomaly is not None:
            count = outcome.count(self.anomaly)
            return f"{self.anomaly} {count:,}" if count else f"no {self.anomaly}"
        return f"{outcome.verdict} ({outcome.describe()})"
