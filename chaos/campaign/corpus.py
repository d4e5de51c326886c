"""The corpus: published bugs as scenarios, run to see whether Aftershock finds them.

A case is a scenario with `bug:` (`chaos.scenario.expect`). Its variant `affected` has the bug, its variant `fixed` does
not. The files of `chaos/bugs` are cases, and so are shipped scenarios that show a bug of a client library.
"""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chaos.campaign.catalogue import part_name, scenarios
from chaos.campaign.engine import Budget, Report, conduct
from chaos.campaign.folder import Asked, Folder, resumed
from chaos.campaign.score import tally, this_machine
from chaos.errors import UsageError
from chaos.lab.progress import ProgressListener
from chaos.reference.bugs import cases, shows
from chaos.run.campaign import Answer, CaseScore, CorpusResult, Part, TrialRun
from chaos.run.events import now_us
from chaos.run.result import Verdict
from chaos.scenario.expect import AFFECTED, FIXED
from chaos.scenario.model import Scenario

KIND = "corpus"


@dataclass(frozen=True, kw_only=True)
class CorpusRequest(Asked):
    """A corpus. bugs: patterns of the names or ids of bugs; all if empty."""

    bugs: tuple[str, ...] = ()


def select(patterns: Iterable[str] = ()) -> dict[str, Scenario]:
    """Return the cases with a name or an id of a bug that matches a pattern; all without patterns.

    Raises `UsageError` if nothing matches.
    """
    globs = list(patterns) or ["*"]
    found = {
        name: case
        for name, case in cases().items()
        for names in [(name.lower(), case.bug.id.lower() if case.bug else "")]
        if any(fnmatch.fnmatchcase(text, glob.lower()) for glob in globs for text in names)
    }
    if not found:
        raise UsageError(f"no published bug is named {' or '.join(globs)}; `python -m chaos list` shows them")
    return found


def run_corpus(
    asked: CorpusRequest, listener: ProgressListener, report: Report[CorpusResult] | None = None
) -> CorpusResult:
    """Run each variant of the cases, and write the score. Raises `UsageError` for bad input, else as `Lab.drive`."""
    asked = resumed(asked, KIND)
    Budget.parse(asked.budget)
    selected, repeat = select(asked.bugs), asked.repeat or 1
    plan = scenarios([(name, side) for name, case in selected.items() for side in case.variants], repeat, asked.seed)
    folder = Folder.planned(asked, KIND, KIND, plan.parts())
    words = ["python", "-m", "chaos", "corpus", *asked.bugs, "--repeat", str(repeat)]
    command = shlex.join([*words, *([] if asked.seed is None else ["--seed", str(asked.seed)])])

    def judge(runs: list[TrialRun]) -> CorpusResult:
        return score(selected, runs, repeat, command, asked.seed)

    return conduct(plan, folder, asked, listener, judge, report)


def score(
    selected: Mapping[str, Scenario], runs: list[TrialRun], repeat: int, command: str, seed: int | None = None
) -> CorpusResult:
    """Return the score of finished runs. A variant without a conclusive run makes the corpus inconclusive."""
    scored = [_case(name, case, runs) for name, case in selected.items()]
    answers = {case.answer for case in scored}
    verdict: Verdict = "inconclusive" if "could not tell" in answers else "pass" if answers == {"found"} else "fail"
    found = [case for case in scored if case.answer == "found"]
    return CorpusResult(
        kind=KIND,
        title="Published bugs",
        verdict=verdict,
        sentence=f"{len(found)} of {len(scored)} bugs were found.",
        command=command,
        machine=this_machine(),
        made_us=now_us(),
        seed=seed,
        repeat=repeat,
        cases=scored,
    )


def _case(name: str, case: Scenario, runs: list[TrialRun]) -> CaseScore:
    assert case.bug

    def side(variant: str) -> Part:
        own = [run for run in runs if run.part == part_name(name, variant)]
        return tally(part_name(name, variant), sorted(own, key=lambda run: run.n))

    affected = side(AFFECTED)
    fixed = side(FIXED) if FIXED in case.variants else None
    return CaseScore(
        name=name,
        title=case.title,
        bug=case.bug.id,
        affects=case.bug.affected,
        mended_by=case.bug.fixed or "",
        sources=case.bug.sources,
        shows=[text.replace("`", "") for text in shows(case)],
        affected=affected,
        fixed=fixed,
        answer=answer(affected, fixed),
        detection_s=_detection_s(affected),
    )


def answer(affected: Part, fixed: Part | None) -> Answer:
    """Return whether the bug was found. The contract of `affected` demands it, the contract of `fixed` forbids it."""
    if not affected.conclusive or (fixed and not fixed.conclusive):
        return "could not tell"
    if affected.failed == affected.conclusive:
        return "not found"
    return "not mended" if fixed and fixed.failed else "found"


def _detection_s(affected: Part) -> float | None:
    spent = 0.0
    for run in affected.runs:
        spent += run.seconds
        if run.verdict == "pass":
            return round(spent, 1)
    return None
