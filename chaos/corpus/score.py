"""The run of the corpus, and its score: which bugs were found, and after how long."""

from __future__ import annotations

import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from chaos.catalogue.runner import CatalogueResult, Entry, EntryResult, run_catalogue
from chaos.lab.progress import ProgressListener
from chaos.processes.python_module import run_module
from chaos.reference.bugs import shows
from chaos.run.corpus_result import Answer, CaseScore, CorpusResult, CorpusRun, SideScore
from chaos.run.directory import write_atomically
from chaos.run.gate_result import Machine
from chaos.run.result import Verdict
from chaos.scenario.bug import AFFECTED, FIXED
from chaos.scenario.model import Scenario

CORPUS = "corpus.json"


def entries(cases: Mapping[str, Scenario], repeat: int) -> list[Entry]:
    """Return `repeat` runs of each variant of the cases."""
    return [
        Entry(name, side, n) for n in range(1, repeat + 1) for name, case in cases.items() for side in case.variants
    ]


def run_corpus(
    cases: Mapping[str, Scenario],
    repeat: int,
    command: str,
    runs_dir: Path,
    listener: ProgressListener,
    on_result: Callable[[EntryResult], None],
    jobs: int = 1,
    seed: int | None = None,
) -> tuple[Path, CorpusResult]:
    """Run each variant of the cases, and write `corpus.json`, `report.html` and `summary.md`.

    Returns the folder and the score. Raises as `run_catalogue`.
    """
    done = run_catalogue(entries(cases, repeat), runs_dir, listener, on_result, jobs, seed)
    result = score(cases, done, repeat, command)
    write_atomically(done.folder / CORPUS, result.model_dump_json(indent=1) + "\n")
    run_module("checks.report", "corpus", str(done.folder))
    return done.folder, result


def score(cases: Mapping[str, Scenario], done: CatalogueResult, repeat: int, command: str) -> CorpusResult:
    """Return the score of finished runs."""
    sides: dict[tuple[str, str], list[EntryResult]] = defaultdict(list)
    for result in done.results:
        sides[result.entry.scenario, result.entry.variant].append(result)
    scored = [_case(name, case, sides, done.folder) for name, case in cases.items()]
    found = [case for case in scored if case.answer == "found"]
    return CorpusResult(
        sentence=f"{len(found)} of {len(scored)} bugs were found.",
        command=command,
        machine=Machine(platform=platform.platform(), cpus=os.cpu_count() or 1),
        made_us=time.time_ns() // 1000,
        repeat=repeat,
        cases=scored,
    )


def _case(name: str, case: Scenario, sides: Mapping[tuple[str, str], list[EntryResult]], folder: Path) -> CaseScore:
    assert case.bug
    affected = _side(sides[name, AFFECTED], "pass", folder)
    fixed = _side(sides[name, FIXED], "fail", folder) if FIXED in case.variants else None
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


def _side(results: list[EntryResult], showing: Verdict, folder: Path) -> SideScore:
    ordered = sorted(results, key=lambda result: result.entry.repetition)
    return SideScore(runs=[_run(result, showing, folder) for result in ordered])


def _run(result: EntryResult, showing: Verdict, folder: Path) -> CorpusRun:
    outcome, run = result.finished.outcome, result.finished.run
    return CorpusRun(
        verdict=outcome.verdict,
        shows=outcome.verdict == showing,
        anomalies=outcome.anomalies,
        seconds=round(result.finished.seconds, 1),
        sentence=outcome.sentence,
        report=str(run.report.relative_to(folder)) if run.report.exists() else "",
    )


def answer(affected: SideScore, fixed: SideScore | None) -> Answer:
    """Return whether the runs found the bug."""
    if not affected.conclusive or (fixed and not fixed.conclusive):
        return "could not tell"
    if not affected.showing:
        return "not found"
    return "not mended" if fixed and fixed.showing else "found"


def _detection_s(affected: SideScore) -> float | None:
    spent = 0.0
    for run in affected.runs:
        spent += run.seconds
        if run.shows:
            return round(spent, 1)
    return None
