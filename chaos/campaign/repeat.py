"""Repetition: one scenario or incident, run many times, and the rate of each anomaly."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from chaos.campaign.engine import Budget, Listed, Report, Trial, conduct, digest_of
from chaos.campaign.folder import Folder, resumed
from chaos.campaign.score import tally, this_machine
from chaos.campaign.subject import Request, Subject
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import PartsResult, TrialRun
from chaos.run.events import now_us
from chaos.run.result import merge
from chaos.scenario.resolve import seeds

KIND = "repeat"
RUNS = 10


@dataclass
class Repetition(Listed):
    """Runs of one scenario."""

    def describe(self, run: TrialRun) -> str:
        """Return the seed of a run, and what it shows."""
        return f"seed {run.seed}, {super().describe(run)}"


def plan(subject: Subject, count: int, same_seed: bool) -> Repetition:
    """Return the plan to run a subject so often: with its seed and others that follow from it, or with its seed."""
    all_seeds = [subject.seed] * count if same_seed else seeds(subject.seed, count)
    first = Trial("", subject, subject.name, title=subject.name)
    return Repetition([replace(first.repeated(n, f"{subject.name}-{n}"), seed=s) for n, s in enumerate(all_seeds, 1)])


def repeat(asked: Request, listener: ProgressListener, report: Report[PartsResult] | None = None) -> PartsResult:
    """Run a subject many times, and write the rates.

    report: see `conduct`. Raises `UsageError`, `ScenarioError` or `RunDirError` for a bad request, and as `Lab.drive`.
    """
    asked = resumed(asked, KIND)
    Budget.parse(asked.budget)
    subject, count = asked.subject(), asked.repeat or RUNS
    asked = asked.fixed(subject)
    parts = [{"name": subject.name, "digest": digest_of(subject.scenario)}]
    folder = Folder.planned(asked, KIND, f"repeat-{subject.name}", parts)

    def judge(runs: list[TrialRun]) -> PartsResult:
        return _judged(subject, runs, count, _command(asked, count))

    planned = plan(subject, count, asked.same_seed)
    return conduct(planned, folder, asked, listener, judge, report, i_own_this_cluster=asked.i_own_this_cluster)


def _judged(subject: Subject, runs: list[TrialRun], count: int, command: str) -> PartsResult:
    part = tally(subject.name, runs)
    unsure = f"{len(runs) - part.conclusive} of {len(runs)} runs are inconclusive"
    return PartsResult(
        kind=KIND,
        title=subject.scenario.title,
        verdict=merge(run.verdict for run in runs),
        sentence=f"{part.failed} of {part.conclusive} runs broke the contract; {unsure}.",
        command=command,
        machine=this_machine(),
        made_us=now_us(),
        seed=subject.seed,
        repeat=count,
        notes=[f"{len(runs)} of {count} runs were done."] if len(runs) < count else [],
        parts=[part],
    )


def _command(asked: Request, count: int) -> str:
    words = ["python", "-m", "chaos", "repeat", asked.source, "--repeat", str(count), *asked.options()]
    return shlex.join([*words, *asked.owned(), *(["--same-seed"] if asked.same_seed else [])])
