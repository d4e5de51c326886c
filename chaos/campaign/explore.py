"""The use case of an exploration: at every moment of an application's work, or at random."""

from __future__ import annotations

import shlex
from dataclasses import replace

from chaos.campaign.at_once import chosen
from chaos.campaign.chance import RandomSearch
from chaos.campaign.engine import Budget, Report, conduct, digest_of
from chaos.campaign.folder import Folder, resumed
from chaos.campaign.subject import Request
from chaos.campaign.windows import Exploration
from chaos.errors import UsageError
from chaos.lab.progress import ProgressListener
from chaos.run.exploration import ExploreResult

KIND = "explore"
BUDGET = "60,10m"


def explore(asked: Request, listener: ProgressListener, report: Report[ExploreResult] | None = None) -> ExploreResult:
    """Explore the applications of a scenario at every moment, or anything at random. Its own faults are left out.

    Raises `UsageError`, `ScenarioError` or `RunDirError` for a bad request, and as `Lab.drive`.
    """
    asked = resumed(asked, KIND)
    asked = replace(asked, budget=asked.budget or BUDGET)
    Budget.parse(asked.budget)
    subject = asked.subject()
    if not asked.random and not (subject.scenario.apps and subject.scenario.effects):
        raise UsageError(f"{asked.source} has no {'apps' if not subject.scenario.apps else 'effects'} to explore")
    asked, watched = asked.fixed(subject), asked.jobs == 0
    if watched:
        asked = replace(asked, jobs=1 if asked.random else chosen(subject.scenario, listener.say))
    parts = [{"name": subject.name, "digest": digest_of(subject.scenario)}]
    folder = Folder.planned(asked, KIND, f"{KIND}-{subject.name}{'-random' * asked.random}", parts)
    plan: RandomSearch | Exploration = Exploration(subject, folder, watched, listener.say)
    if asked.random:
        plan = RandomSearch(subject, folder, ahead=2 * asked.jobs, say=listener.say)
    how = ["--random"] if asked.random else []
    command = shlex.join(["python", "-m", "chaos", KIND, asked.source, *how, *asked.options()])
    return conduct(plan, folder, asked, listener, lambda runs: plan.result(runs, command, folder.plan.spent_s), report)
