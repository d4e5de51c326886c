"""What is stored of a finished run: its anomalies beside the contract, and whether it proves anything."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from chaos.anomalies import ANOMALIES, PHRASES
from chaos.campaign.folder import Folder
from chaos.contract import Contract, contract
from chaos.lab.lab import FinishedRun
from chaos.prove.task import Task
from chaos.run.campaign import FoundAnomaly, ProofRun, RunState
from chaos.run.result import Result
from chaos.scenario.model import Scenario

NOTHING_WRITTEN = "No record was acknowledged, so the run proves nothing."
NOTHING_READ = "No reader received a record, so the run proves nothing."


def observe(task: Task, finished: FinishedRun, folder: Folder) -> ProofRun:
    """Return what is stored of a run. A run that broke a promise is packed into a bundle."""
    stored = ProofRun(
        set=task.faults.id,
        purpose=task.purpose,
        change=task.change,
        n=task.n,
        seed=finished.seed,
        verdict=finished.outcome.verdict,
        state="unknown",
        sentence=finished.outcome.sentence,
        seconds=round(finished.seconds, 1),
        run_id=finished.run.run_id,
    )
    if not finished.run.result.exists():
        return stored
    result, scenario = Result.read(finished.run), task.subject.scenario
    derived = contract(scenario)
    anomalies = list(_anomalies(result, derived))
    state, sentence = _state(result, anomalies, scenario)
    examined: Counter[str] = Counter()
    for total in result.totals:
        examined[total.check] += total.examined
    report = os.path.relpath(finished.run.report, folder.path) if finished.run.report.exists() else ""
    return stored.model_copy(
        update={
            "state": state,
            "sentence": sentence,
            "anomalies": anomalies,
            "examined": {check: rows for check, rows in examined.items() if rows},
            "promised": [line.name for line in derived.lines if line.state == "forbidden"],
            "acked": result.counts.acked,
            "delivered": sum(reader.delivered for reader in result.counts.readers),
            "report": report,
            "bundle": folder.pack_run(finished.run.run_id) if state == "broken" else "",
        }
    )


def _anomalies(result: Result, derived: Contract) -> Iterator[FoundAnomaly]:
    counts: Counter[tuple[str, str]] = Counter()
    for total in result.totals:
        counts[total.check, total.split] += total.count
    for (check, split), count in counts.items():
        if count and check in ANOMALIES:
            line = derived.line(check, split)
            text = PHRASES[check, split].describe(count)
            yield FoundAnomaly(name=line.name, count=count, state=line.state, reason=line.reason, text=text)


def _state(result: Result, anomalies: list[FoundAnomaly], scenario: Scenario) -> tuple[RunState, str]:
    """Return what a run shows, and why. A broken promise counts whatever else is missing from the run."""
    if any(anomaly.state == "forbidden" for anomaly in anomalies) and result.verdict == "fail":
        return "broken", result.sentence
    missing = [e for e in result.expectations if e.verdict != "pass" and e.check not in ANOMALIES]
    if missing:
        why = "; ".join(e.why or f"{e.name}: expected {e.expected}, seen {e.seen}" for e in missing)
        shown = "; ".join(anomaly.text for anomaly in anomalies)
        return "unknown", f"{shown}, which does not count as an effect of the fault: {why}" if shown else why
    if result.counts.acked == 0:
        return "unknown", NOTHING_WRITTEN
    if scenario.groups and not any(reader.delivered for reader in result.counts.readers):
        return "unknown", NOTHING_READ
    if any(anomaly.state == "not decided" for anomaly in anomalies):
        return "undecided", result.sentence
    return ("held", result.sentence) if result.verdict == "pass" else ("unknown", result.sentence)
