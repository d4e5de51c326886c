"""Replay: an incident, run again with the same seed and versions, and compared with the original run."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from chaos import __version__
from chaos.campaign import trials
from chaos.campaign.score import differences
from chaos.campaign.subject import Request, Subject, load_subject
from chaos.clients.runtime import runtime
from chaos.errors import UsageError
from chaos.lab.lab import FinishedRun
from chaos.lab.progress import ProgressListener
from chaos.run.directory import write_json
from chaos.run.outcome import RunOutcome


@dataclass(frozen=True)
class Replay:
    """The replayed run. same: None if the incident has no result, or if the replay is inconclusive."""

    run: FinishedRun
    same: bool | None
    sentence: str
    notes: list[str]

    def as_json(self) -> dict[str, object]:
        """Return the content of `replay.json`."""
        path = str(self.run.run.path)
        return {"same": self.same, "sentence": self.sentence, "notes": self.notes, "run": path}


def replay(request: Request, listener: ProgressListener) -> Replay:
    """Run an incident again as it was, compare, and write `replay.json`.

    Raises `UsageError` or `RunDirError` for a source without a run, and as `Lab.drive`.
    """
    subject = load_subject(request.source)
    notes = version_notes(subject)
    with trials.new_lab("replay", subject, request, listener) as lab:
        for note in notes:
            listener.say(f"note: {note}")
        listener.say(f"run directory: {lab.folder}")
        run = lab.run(subject, f"{subject.name}-replay")
    same, sentence = compare(run.outcome, subject)
    result = Replay(run, same, sentence, notes)
    write_json(lab.folder / "replay.json", result.as_json())
    return result


def version_notes(subject: Subject) -> list[str]:
    """Return a note for each version that differs from the incident's.

    Raises `UsageError` if the subject has never been run.
    """
    if subject.versions is None:
        raise UsageError(
            f"{subject.source} is a scenario, of which there was no run; `replay` takes a bundle, `run` runs it"
        )
    notes = []
    client = subject.scenario.clients.confluent_kafka
    if client and client != runtime().default_release():
        notes.append(f"clients run with confluent-kafka {client} as then, in a separate environment")
    now = {"aftershock": __version__, "python": platform.python_version(), "platform": platform.platform(terse=True)}
    for name, version in now.items():
        then = subject.versions.get(name)
        if then and then != version:
            notes.append(f"{name} was {then} then and is {version} now")
    return notes


def compare(now: RunOutcome, subject: Subject) -> tuple[bool | None, str]:
    """Compare a replay with its incident: whether they are the same (None: unknown), and a sentence."""
    before = subject.outcome
    if not now.conclusive:
        return None, f"The replay is inconclusive: {now.sentence}"
    if before is None:
        return None, f"The incident had no result to compare with. The replay shows: {now.describe()}."
    if phrases := differences(before, now, subject.scenario):
        return False, f"Not the same outcome: {'; '.join(phrases)}."
    counts = f"then {before.describe()}; now {now.describe()}"
    return True, f"The same outcome: verdict {now.verdict}, the same kinds of anomalies ({counts})."
