"""Replay: an incident, run again with the same seed and versions, and compared with the original run."""

from __future__ import annotations

import platform
import shlex
from pathlib import Path

from chaos import __version__
from chaos.campaign.engine import Listed, Report, Trial, conduct, digest_of
from chaos.campaign.folder import Folder, resumed
from chaos.campaign.score import differences, tally, this_machine
from chaos.campaign.subject import Request, Subject
from chaos.clients.runtime import runtime
from chaos.errors import UsageError
from chaos.incident.bundle import SUFFIX
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import SAME, PartsResult, TrialRun
from chaos.run.events import now_us
from chaos.run.result import RunOutcome, merge
from chaos.scenario.inputs import programs_notes
from chaos.scenario.shipped import bugs, shipped
from chaos.setup.names import nearest

KIND = "replay"


def replay(request: Request, listener: ProgressListener, report: Report[PartsResult] | None = None) -> PartsResult:
    """Run an incident again as it was, and compare.

    The answer of the result is `the same` or `not the same`; empty if the incident has no result, or if the replay is
    inconclusive. The verdict is the verdict of the run. report: see `conduct`.
    Raises `UsageError` or `RunDirError` for a source without a run, and as `Lab.drive`.
    """
    asked = resumed(request, KIND)
    _check_exists(asked.source)
    subject = asked.subject()
    notes = version_notes(subject)
    asked = asked.fixed(subject)
    parts = [{"name": subject.name, "digest": digest_of(subject.scenario)}]
    folder = Folder.planned(asked, KIND, f"{KIND}-{subject.name}", parts)
    for note in notes:
        listener.say(f"note: {note}")
    name = f"{subject.name}-replay"
    plan = Listed([Trial(name, subject, subject.name, title=name)])

    def judge(runs: list[TrialRun]) -> PartsResult:
        same, sentence = compare(runs[0] if runs else RunOutcome.missing("It did not run."), subject)
        return PartsResult(
            kind=KIND,
            title=f"Replay: {subject.scenario.title}",
            verdict=merge(run.verdict for run in runs),
            sentence=sentence,
            command=shlex.join(["python", "-m", "chaos", KIND, asked.source, *asked.sets(), *asked.owned()]),
            machine=this_machine(),
            made_us=now_us(),
            seed=subject.seed,
            repeat=1,
            notes=notes,
            parts=[tally(subject.name, runs)],
            answer={True: SAME, False: "not the same", None: ""}[same],
        )

    owned = asked.i_own_this_cluster
    return conduct(plan, folder, asked, listener, judge, report, i_own_this_cluster=owned)


def _check_exists(source: str) -> None:
    """Raise `UsageError` if a source is neither a path nor the name of a scenario, which has another message."""
    path = Path(source)
    if source and not path.exists() and source not in {**bugs(), **shipped()}:
        near = nearest(path.name, (found.name for found in path.parent.glob(f"*{SUFFIX}")))
        raise UsageError(
            f"there is no bundle or run directory {source}{near}; `python -m chaos bundle RUN_DIR` makes a bundle of a "
            "run"
        )


def version_notes(subject: Subject) -> list[str]:
    """Return a note for each version and each program that differs from the incident's, and each change.

    Raises `UsageError` if the subject has never been run.
    """
    if subject.versions is None:
        raise UsageError(f"{subject.source} is a scenario without a run; `replay` takes a bundle, `run` runs it")
    notes = [f"changed: {change}" for change in subject.changes]
    notes += programs_notes(subject.scenario, subject.programs)
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
