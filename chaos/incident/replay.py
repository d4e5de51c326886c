"""Replaying: what a bundle is of is run again, with the same seed and on the same versions, and held against it."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from chaos import __version__
from chaos.clients.confluent import environment
from chaos.errors import UsageError
from chaos.incident.lab import Lab, Trial
from chaos.incident.outcome import differences
from chaos.incident.subject import Subject
from chaos.run.result import RunOutcome


@dataclass(frozen=True)
class Replay:
    """A run that was made again. `same` is None where the incident has no result, or the replay could not tell."""

    trial: Trial
    same: bool | None
    sentence: str


def notes(subject: Subject) -> list[str]:
    """What differs between then and now, and what is done about it. Raises `UsageError` where nothing had been run."""
    if subject.versions is None:
        raise UsageError(
            f"{subject.given} is a scenario, of which there was no run; `replay` takes a bundle, `run` runs it"
        )
    found = []
    client = subject.scenario.clients.confluent_kafka
    if client and client != environment.installed_release():
        found.append(f"clients run with confluent-kafka {client} as then, in an environment of their own")
    now = {"aftershock": __version__, "python": platform.python_version(), "platform": platform.platform(terse=True)}
    for name, value in now.items():
        then = subject.versions.get(name)
        if then and then != value:
            found.append(f"{name} was {then} then and is {value} now")
    return found


def replay(lab: Lab, subject: Subject) -> Replay:
    """Run it again and compare. Raises as `Lab.drive`."""
    trial = lab.trial(subject, f"{subject.name}-replay")
    return compared(trial, subject.seen, subject)


def compared(trial: Trial, before: RunOutcome | None, subject: Subject) -> Replay:
    """What a replay says about the incident."""
    now = trial.seen
    if not now.conclusive:
        return Replay(trial, None, f"The replay cannot tell: {now.sentence}")
    if before is None:
        return Replay(trial, None, f"The incident had no result to compare with. Seen now: {now.describe()}.")
    found = differences(before, now, subject.scenario.expect)
    if found:
        return Replay(trial, False, f"Not the same outcome: {'; '.join(found)}.")
    counts = f"then {before.describe()}; now {now.describe()}"
    return Replay(trial, True, f"The same outcome: verdict {now.verdict}, the same kinds of anomalies ({counts}).")
