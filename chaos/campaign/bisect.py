"""Bisection: the first release of brokers, clients or an application with which the outcome changes.

Both ends run first. A release in between is `old` if it shows the same as the older end, else `new`. A release that is
inconclusive, or cannot run the scenario, is skipped. The plan repeats the search over the stored runs until the search
asks for a release that has not run.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.campaign.engine import Budget, Plan, Report, Trial, Wanted, cluster_of, conduct, digest_of
from chaos.campaign.folder import Folder, resumed
from chaos.campaign.releases import Axis, app_axis, client_axis, kafka_axis
from chaos.campaign.score import merge, parse_anomaly, signature, tally, this_machine
from chaos.campaign.search import Change, State, first_change
from chaos.campaign.subject import Request, Subject
from chaos.errors import AftershockError, UsageError
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import Part, PartsResult, TrialRun
from chaos.run.events import now_us
from chaos.run.result import RunOutcome, Verdict

KIND = "bisect"


def bisect(request: Request, listener: ProgressListener, report: Report[PartsResult] | None = None) -> PartsResult:
    """Search for the first release with another outcome.

    The answer of the result is the release; empty if it was not found. The verdict is pass with an answer, fail if both
    ends show the same, else inconclusive. report: see `conduct`.
    Raises `UsageError` for a bad request, and as `Lab.drive` for the ends.
    """
    asked = resumed(request, KIND)
    Budget.parse(asked.budget)
    if sum((asked.kafka is not None, asked.client is not None, bool(asked.app))) != 1:
        raise UsageError(
            "give one of --kafka A..B, --client RUNTIME:A..B, and --app NAME=COMMAND for each command: what to search"
        )
    subject, tries = asked.subject(), asked.repeat or 1
    if asked.app:
        axis = app_axis(asked.app, subject.scenario)
    elif asked.kafka is not None:
        axis = kafka_axis(asked.kafka)
    else:
        axis = client_axis(asked.client or "")
    asked = asked.fixed(subject)
    anomaly = parse_anomaly(asked.anomaly, subject.scenario) if asked.anomaly else None
    digest = digest_of(subject.scenario)
    parts = [{"name": release, "digest": digest, "anomaly": anomaly or ""} for release in axis.releases]
    folder = Folder.planned(asked, KIND, f"{KIND}-{subject.name}", parts)
    listener.say(f"{axis.what}: {len(axis.releases)} to search, seed {subject.seed}")
    plan = Bisection(subject, axis, anomaly, tries)

    def judge(runs: list[TrialRun]) -> PartsResult:
        return plan.result(runs, _command(asked, tries))

    return conduct(plan, folder, asked, listener, judge, report)


@dataclass
class Bisection(Plan):
    """One search over a list of releases. anomaly: the anomaly that decides; None for the outcome."""

    bundles = False

    subject: Subject
    axis: Axis
    anomaly: str | None
    tries: int
    _runs: Sequence[TrialRun] = ()
    _asked: dict[int, list[Trial] | str] = field(default_factory=dict)
    """The trials of a release by its index, or why it cannot run."""

    @property
    def _ends(self) -> tuple[int, int]:
        return 0, len(self.axis.releases) - 1

    def trials(self, runs: Sequence[TrialRun]) -> Sequence[Trial]:
        """Return the runs of the releases that the search needs next; none if it is complete."""
        self._runs = runs
        try:
            self._change()
        except Wanted as wanted:
            return wanted.trials
        return []

    def describe(self, run: TrialRun) -> str:
        """Return what decides, of a run."""
        return self._describe(run) if run.conclusive else run.sentence

    def result(self, runs: list[TrialRun], command: str) -> PartsResult:
        """Return what the runs show: the first release with the change, if they have it."""
        self._runs = runs
        verdict, sentence, answer = self._decide()
        return PartsResult(
            kind=KIND,
            title=f"The first {self.axis.what} with another outcome: {self.subject.name}",
            verdict=verdict,
            sentence=sentence,
            command=command,
            machine=this_machine(),
            made_us=now_us(),
            seed=self.subject.seed,
            repeat=self.tries,
            parts=[self._part(index) for index in range(len(self.axis.releases)) if self._own(index)],
            answer=answer,
        )

    def _change(self) -> Change | None:
        """Return where the outcome changes; None if both ends show the same, or one is inconclusive.

        Raises `Wanted` for runs that are missing.
        """
        missing = [trial for index in self._ends for trial in self._missing(index)]
        if missing:
            raise Wanted(missing)
        first, last = map(self._outcome, self._ends)
        if not (first.conclusive and last.conclusive) or self._key(first) == self._key(last):
            return None
        return first_change(len(self.axis.releases), self._state)

    def _decide(self) -> tuple[Verdict, str, str]:
        """Return the verdict, the sentence and the answer."""
        name, releases = self.axis.name, self.axis.releases
        try:
            change = self._change()
        except Wanted:
            return "inconclusive", "The search is not complete: continue it with --resume.", ""
        if change is None:
            for index in self._ends:
                if not (outcome := self._outcome(index)).conclusive:
                    unsure = f"{name} {releases[index]} is inconclusive, and both ends must be conclusive"
                    return "inconclusive", f"{unsure}: {outcome.sentence}", ""
            same = self._describe(self._outcome(0))
            return "fail", f"No change: {releases[0]} and {releases[-1]} show the same: {same}.", ""
        first, old = releases[change.first_new], releases[change.last_old]
        before, after = self._describe(self._outcome(change.last_old)), self._describe(self._outcome(change.first_new))
        shown = f"{before} with {old}, {after} with {first}"
        if not change.between:
            return "pass", f"{name} {first} is the first with the change: {shown}.", first
        candidates = ", ".join([*(releases[i] for i in change.between), first])
        skipped = "and those in between are inconclusive"
        return "inconclusive", f"The first with the change is one of {candidates}: {shown}, {skipped}.", ""

    def _part(self, index: int) -> Part:
        part = tally(self.axis.releases[index], self._own(index))
        if self._missing(index) or any(map(self._missing, self._ends)):
            return part
        state = self._state(index)
        return part.model_copy(update={"state": "skipped" if state == "skip" else state})

    def _state(self, index: int) -> State:
        if missing := self._missing(index):
            raise Wanted(missing)
        outcome = self._outcome(index)
        if not outcome.conclusive:
            return "skip"
        return "old" if self._key(outcome) == self._key(self._outcome(0)) else "new"

    def _own(self, index: int) -> list[TrialRun]:
        return [run for run in self._runs if run.part == self.axis.releases[index]]

    def _outcome(self, index: int) -> RunOutcome:
        trials = self._trials(index)
        return RunOutcome.missing(trials) if isinstance(trials, str) else merge(self._own(index))

    def _missing(self, index: int) -> list[Trial]:
        own, trials = self._own(index), self._trials(index)
        if isinstance(trials, str) or any(not run.ran for run in own):
            return []
        done = {run.run_id for run in own}
        return [trial for trial in trials if trial.run_id not in done]

    def _trials(self, index: int) -> list[Trial] | str:
        """Return the runs of a release, or why it cannot run. Raises as `Subject.set` if it is an end."""
        if index not in self._asked:
            release = self.axis.releases[index]
            try:
                subject = self.subject.set(*self.axis.overrides(self.subject.scenario, release))
            except AftershockError as e:
                if index in self._ends:
                    raise
                self._asked[index] = " ".join(str(e).split())
            else:
                title = f"{self.axis.name} {release}"
                end, cluster = index in self._ends, cluster_of(subject.scenario)
                one = Trial("", subject, release, title=title, cluster=cluster, optional=not end)
                names = [(n, f"{self.axis.run_id(index)}-{n}") for n in range(1, self.tries + 1)]
                self._asked[index] = [one.repeated(n, name) for n, name in names]
        return self._asked[index]

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


def _command(asked: Request, tries: int) -> str:
    axis = ["--kafka", asked.kafka] if asked.kafka is not None else ["--client", asked.client or ""]
    axis = [word for text in asked.app for word in ("--app", text)] or axis
    words = ["python", "-m", "chaos", KIND, asked.source, *axis, "--repeat", str(tries)]
    words += ["--anomaly", asked.anomaly] if asked.anomaly else []
    return shlex.join([*words, *asked.options()])
