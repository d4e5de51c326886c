"""Proofs of the applications of published bugs: does `prove` find a bug without a hint?

Each proof gets the settings of the affected variant, and a budget of time. Bugs with the same application share one. A
proof ends when it has found the bugs of its application.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.contract import contract
from chaos.corpus.application import application_of
from chaos.errors import UsageError
from chaos.lab.progress import ProgressListener
from chaos.processes.python_module import run_module
from chaos.prove.plan import BASELINE
from chaos.prove.prove import ProofRequest, describe, open_proof, parse_budget, plan_proof, run_proof
from chaos.prove.settings import dump
from chaos.reference.bugs import shows
from chaos.run.corpus_result import UnaidedCase, UnaidedResult
from chaos.run.directory import new_folder, write_atomically
from chaos.run.gate_result import Machine
from chaos.run.proof_result import ProofResult, ProofRun
from chaos.scenario.bug import AFFECTED
from chaos.scenario.load import find, load
from chaos.scenario.model import Scenario

UNAIDED = "unaided.json"


@dataclass
class Timed:
    """A proof, and the seconds from its start to the verdict of each run, by the run's name."""

    result: ProofResult
    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Unaided:
    """How the proofs run. budget: the longest time of each, such as `20m`."""

    budget: str
    folder: Path
    listener: ProgressListener
    jobs: int
    seed: int | None

    def prove(self, name: str, app: str, sought: Sequence[set[str]]) -> Timed:
        """Prove an application. sought: the anomalies of each of its bugs.

        Raises `UsageError` for an application that a proof does not know, else as `run_proof`.
        """
        file = self.folder / f"{name}.yaml"
        write_atomically(file, app)
        into = self.folder / name
        request = ProofRequest(file, self.folder, self.budget, self.seed, jobs=self.jobs, into=into)
        proof = open_proof(plan_proof(request), request)
        self.listener.say(f"{name}: a proof of its application, {self.budget}")
        started, seconds, broken = time.monotonic(), dict[str, float](), set[str]()

        def report(run: ProofRun) -> bool:
            seconds[run.run_id] = round(time.monotonic() - started, 1)
            self.listener.say(f"{name}: {describe(run)}")
            broken.update(forbidden(run))
            return all(anomalies & broken for anomalies in sought)

        return Timed(run_proof(proof, self.listener, report, self.jobs), into, seconds)


def prove_corpus(
    cases: Mapping[str, Scenario],
    budget: str,
    command: str,
    runs_dir: Path,
    listener: ProgressListener,
    jobs: int = 2,
    seed: int | None = None,
) -> tuple[Path, UnaidedResult]:
    """Prove the application of each bug, and write `unaided.json` and `summary.md`.

    Returns the folder and the result. Raises `UsageError` for a budget that allows no run, else as `run_proof`.
    """
    budget_s = parse_budget(budget)
    assert budget_s is not None  # there is a budget
    folder = new_folder(runs_dir, "unaided")
    how = Unaided(budget, folder, listener, jobs, seed)
    scored = list(_cases(cases, how))
    tried = [case for case in scored if case.answer != "not applicable"]
    found = sum(case.answer == "found" for case in tried)
    result = UnaidedResult(
        sentence=f"{found} of {len(tried)} bugs were found by a proof of {budget} without a hint; "
        f"{len(scored) - len(tried)} have no application.",
        command=command,
        machine=Machine(platform=platform.platform(), cpus=os.cpu_count() or 1),
        made_us=time.time_ns() // 1000,
        budget_s=budget_s,
        cases=scored,
    )
    write_atomically(folder / UNAIDED, result.model_dump_json(indent=1) + "\n")
    run_module("checks.report", "unaided", str(folder))
    return folder, result


def _cases(cases: Mapping[str, Scenario], how: Unaided) -> Iterator[UnaidedCase]:
    """Prove the application of each bug once, and score the bugs."""
    affected = {name: load(find(name), variant=AFFECTED) for name in cases}
    apps, refused = dict[str, str](), dict[str, str]()
    for name, scenario in affected.items():
        try:
            apps[name] = dump(application_of(scenario))
        except UsageError as e:
            refused[name] = str(e)
    sought = {name: anomalies_of(affected[name]) for name in apps}
    proofs: dict[str, Timed] = {}
    for name, case in cases.items():
        head = _head(name, case)
        if name in refused:
            yield head.model_copy(update={"why": refused[name]})
            continue
        app = apps[name]
        try:
            if app not in proofs:
                proofs[app] = how.prove(name, app, [sought[other] for other in apps if apps[other] == app])
        except UsageError as e:
            yield head.model_copy(update={"why": str(e)})
        else:
            yield score(head, sought[name], proofs[app], how.folder)


def _head(name: str, case: Scenario) -> UnaidedCase:
    assert case.bug
    lines = [text.replace("`", "") for text in shows(case)]
    return UnaidedCase(name=name, title=case.title, bug=case.bug.id, shows=lines, answer="not applicable")


def anomalies_of(affected: Scenario) -> set[str]:
    """Return the names of the anomalies that the affected variant must show, as the runs of a proof have them."""
    return {line.name for line in contract(affected).lines if line.bound.min > 0}


def forbidden(run: ProofRun) -> set[str]:
    """Return the names of the anomalies by which a run broke a promise, unless it ran with another setting."""
    return {a.name for a in run.anomalies if a.state == "forbidden" and run.purpose != "mended"}


def score(head: UnaidedCase, anomalies: set[str], proof: Timed, folder: Path) -> UnaidedCase:
    """Return the case with what the proof found of the bug's anomalies."""
    result = proof.result
    runs = [run for run in result.runs if run.purpose != "mended"]
    broken = [run for run in runs if forbidden(run) & anomalies]
    others = {name for run in runs for name in forbidden(run)} - anomalies
    shown = (anomaly for run in runs for anomaly in run.anomalies if anomaly.name in anomalies)
    seen = {f"{anomaly.name} ({anomaly.state})" for anomaly in shown if anomaly.state != "forbidden"}
    conclusive = [run for run in runs if run.state != "unknown" and run.set != BASELINE]
    first = min(broken, key=lambda run: proof.seconds.get(run.run_id, 0.0), default=None)
    page = proof.folder / "report.html"
    return head.model_copy(
        update={
            "answer": "found" if first else "not found" if conclusive else "could not tell",
            "runs": len(result.runs),
            "sets": sum(result.tried),
            "planned": sum(result.planned),
            "seconds": result.seconds,
            "found_by": first.set if first else "",
            "detection_s": proof.seconds.get(first.run_id) if first else None,
            "seen": sorted(seen),
            "others": sorted(others),
            "proof": str(page.relative_to(folder)) if page.exists() else "",
        }
    )
