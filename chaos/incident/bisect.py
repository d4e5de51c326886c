"""Bisecting: the first release of the brokers, or of the clients, with which the outcome is another one.

The two ends are run first. In between, a release that shows what the older end showed is old, and any other is new. One
that cannot tell (inconclusive, or it cannot run this scenario at all) is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import yaml

from chaos.errors import FAIL, INCONCLUSIVE, PASS, USAGE, AftershockError, ClusterError, UsageError
from chaos.incident.lab import Lab
from chaos.incident.outcome import merged, signature
from chaos.incident.search import Change, State, first_change
from chaos.incident.subject import Subject
from chaos.run.result import RunOutcome

RELEASES = Path(__file__).with_name("releases.yaml")

What = Literal["kafka", "client"]
_KEYS = {"kafka": "kafka", "client": "confluent-kafka"}
_PATHS = {"kafka": "cluster.kafka", "client": "clients.confluent_kafka"}
NAMES = {"kafka": "Kafka", "client": "confluent-kafka"}


@dataclass(frozen=True)
class Row:
    """What was run with one release, and seen."""

    release: str
    seen: RunOutcome
    state: str
    runs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """The outcome of a bisection, with everything that was run for it, in the order of releases."""

    what: What
    sentence: str
    code: int
    rows: list[Row]
    first_new: str | None = None


def releases(what: What, span: str) -> list[str]:
    """The releases from A to B, both with them, of `A..B`. Raises `UsageError` for what is not in the list."""
    older, dots, newer = span.partition("..")
    known = known_releases(what)
    if not dots or not older or not newer:
        raise UsageError(
            f"--{what} {span!r} is not understood; write the older and the newer one, as {known[-9]}..{known[-1]}"
        )
    for release in (older, newer):
        check_release(what, release)
    first, last = known.index(older), known.index(newer)
    if first >= last:
        raise UsageError(f"--{what} {span}: the first release must be the older one, and they must differ")
    return known[first : last + 1]


def known_releases(what: What) -> list[str]:
    """The releases that are listed, oldest first."""
    found: list[str] = yaml.safe_load(RELEASES.read_text(encoding="utf-8"))[_KEYS[what]]
    return found


def check_release(what: What, release: str) -> None:
    """Raise `UsageError` for a release that is not in the list, with those that are near."""
    known = known_releases(what)
    if release not in known:
        near = get_close_matches(release, known, 3)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise UsageError(f"{NAMES[what]} {release} is not in {RELEASES.name}{hint}; it has {known[0]} to {known[-1]}")


def as_json(answer: Answer) -> dict[str, object]:
    """For scripts."""
    rows = [{"release": r.release, "is": r.state, "runs": r.runs, **r.seen.model_dump()} for r in answer.rows]
    return {"what": NAMES[answer.what], "first": answer.first_new, "sentence": answer.sentence, "rows": rows}


class Bisection:
    """One search; `rows` fills as it goes on, so that it can be shown when it breaks off."""

    def __init__(
        self, lab: Lab, subject: Subject, what: What, span: list[str], anomaly: str | None, tries: int
    ) -> None:
        """Without an anomaly, what is compared is the verdict and the kinds of anomalies."""
        self._lab, self._subject, self._what, self._span = lab, subject, what, span
        self._anomaly, self._tries = anomaly, tries
        self._rows: dict[int, Row] = {}
        self._old: object = None

    @property
    def rows(self) -> list[Row]:
        """What was run so far, in the order of releases."""
        return [row for _, row in sorted(self._rows.items())]

    def run(self) -> Answer:
        """Search. Raises an error with exit code 2 where an end cannot be run at all."""
        last = len(self._span) - 1
        for place in (0, last):
            if not self._look(place, self._end(place)).conclusive:
                raise ClusterError(
                    f"{NAMES[self._what]} {self._span[place]} cannot tell, and both ends have to: "
                    f"{self._rows[place].seen.sentence} See {self._lab.folder}"
                )
        old, new = (self._shown(self._rows[place].seen) for place in (0, last))
        self._old = old
        if old == new:
            both = f"{self._span[0]} and {self._span[last]} show the same: {self._words(self._rows[0].seen)}"
            return Answer(self._what, f"Nothing to be found: {both}.", FAIL, self.rows)
        self._mark(0, "old")
        self._mark(last, "new")
        return self._answer(first_change(len(self._span), self._state))

    def _answer(self, change: Change) -> Answer:
        name, first = NAMES[self._what], self._span[change.first_new]
        before, after = self._rows[change.last_old], self._rows[change.first_new]
        how = f"{self._words(before.seen)} with {before.release}, {self._words(after.seen)} with {first}"
        if not change.between:
            return Answer(self._what, f"{name} {first} is the first with the change: {how}.", PASS, self.rows, first)
        could = ", ".join([*(self._span[i] for i in change.between), first])
        words = f"The first with the change is one of {could}: {how}, and those in between could not tell."
        return Answer(self._what, words, INCONCLUSIVE, self.rows)

    def _state(self, place: int) -> State:
        seen = self._look(place, lambda: self._trials(place))
        state: State = "skip" if not seen.conclusive else "old" if self._shown(seen) == self._old else "new"
        self._mark(place, "skipped" if state == "skip" else state)
        return state

    def _end(self, place: int) -> Callable[[], tuple[RunOutcome, list[str]]]:
        return lambda: self._trials(place, must_run=True)

    def _look(self, place: int, run: Callable[[], tuple[RunOutcome, list[str]]]) -> RunOutcome:
        seen, runs = run()
        self._rows[place] = Row(self._span[place], seen, "", runs)
        words = seen.sentence if not seen.conclusive else self._words(seen)
        self._lab.told.say(f"{NAMES[self._what]} {self._span[place]}: {words}")
        return seen

    def _trials(self, place: int, must_run: bool = False) -> tuple[RunOutcome, list[str]]:
        release = self._span[place]
        found: list[RunOutcome] = []
        runs: list[str] = []
        try:
            subject = self._subject.set(f"{_PATHS[self._what]}={release!r}")
            for n in range(1, self._tries + 1):
                trial = self._lab.trial(subject, f"{self._what}-{release}-{n}")
                found.append(trial.seen)
                runs.append(trial.run.run_id)
        except AftershockError as e:
            if must_run or e.exit_code != USAGE:
                raise
            return RunOutcome.missing(str(e).replace("\n", " ")), runs
        return merged(found), runs

    def _shown(self, seen: RunOutcome) -> object:
        if self._anomaly is not None:
            return seen.count(self._anomaly) > 0
        return signature(seen, self._subject.scenario.expect)

    def _words(self, seen: RunOutcome) -> str:
        if self._anomaly is not None:
            count = seen.count(self._anomaly)
            return f"{self._anomaly} {count:,}" if count else f"no {self._anomaly}"
        return f"{seen.verdict} ({seen.describe()})"

    def _mark(self, place: int, state: str) -> None:
        row = self._rows[place]
        self._rows[place] = Row(row.release, row.seen, state, row.runs)
