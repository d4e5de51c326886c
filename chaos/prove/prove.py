"""The use cases of a proof: plan it, run it or go on with it, and judge its stored runs."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import AftershockError, UsageError
from chaos.kafka.settings import Scalar
from chaos.lab.progress import ProgressListener
from chaos.processes.python_module import run_module
from chaos.promise.inputs import Options
from chaos.prove import against, application, folder
from chaos.prove.faults import fault_classes
from chaos.prove.folder import RESULT, ProofFolder
from chaos.prove.follow_up import FollowUp
from chaos.prove.judge import ProofJudge
from chaos.prove.plan import plan
from chaos.prove.runner import Crew
from chaos.prove.supports import outcomes
from chaos.prove.task import task
from chaos.run.directory import new_run_id, write_atomically
from chaos.run.proof_result import ProofResult, ProofRun
from chaos.scenario.resolve import new_seed
from chaos.units import parse_duration

LEAST_S = 60.0
"""The smallest budget: about the time in which brokers and judge start, and one run with a fault ends."""
MOST = 2


@dataclass(frozen=True)
class ProofRequest:
    """A proof. app: the application's file; None with `resume`: that of the proof. most: faults of a set, 1 or 2.

    budget: the time after which no other run begins, such as `30m`; None for no limit. into: the folder of a new proof.
    """

    app: Path | None
    runs_dir: Path
    budget: str | None = None
    seed: int | None = None
    most: int = MOST
    jobs: int = 2
    resume: Path | None = None
    into: Path | None = None
    against: Path | None = None
    bootstrap: str | None = None
    topic: str | None = None
    select: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proof:
    """A proof that was planned, and checked against its folder."""

    judge: ProofJudge
    folder: ProofFolder
    budget_s: float | None
    earlier: ProofResult | None


def plan_proof(request: ProofRequest) -> ProofJudge:
    """Check the application and return the judge with the plan; nothing is started or written.

    Raises `UsageError` for bad input, and `ClusterError` if a cluster that is to be asked does not answer.
    """
    earlier = ProofFolder.open(request.resume).plan if request.resume else None
    path = request.app or (Path(earlier.app) if earlier else None)
    if path is None:
        raise UsageError("give an app.yaml, or --resume with the folder of a proof")
    select = request.select or tuple(earlier.select if earlier else ())
    options = Options(app=path, bootstrap=request.bootstrap, topic=request.topic, select=select)
    app = application.read(options)
    found = outcomes(app.facts)
    planned = plan(found, fault_classes(app.facts, app.names), earlier.most if earlier else request.most)
    seed = earlier.seed if earlier else new_seed() if request.seed is None else request.seed
    sets = {faults.id: faults for faults in planned.sets}
    follow_up = FollowUp(app, found, sets, seed, _mended(options))
    words = ["python -m chaos prove", shlex.quote(str(path)), *(f"--select {shlex.quote(name)}" for name in select)]
    words += [f"--for {request.budget}"] if request.budget else []
    return ProofJudge(app, found, planned, follow_up, seed, " ".join([*words, f"--seed {seed}"]))


def _mended(options: Options) -> Callable[[Mapping[str, Scalar]], application.Application]:
    """Return a function from other values of facts to the application with them. It reads each only once."""
    known: dict[str, application.Application | AftershockError] = {}

    def read(lifts: Mapping[str, Scalar]) -> application.Application:
        key = str(sorted(lifts.items()))
        if key not in known:
            try:
                known[key] = application.read(options, lifts)
            except AftershockError as e:
                known[key] = e
        found = known[key]
        if isinstance(found, AftershockError):
            raise found
        return found

    return read


def open_proof(judge: ProofJudge, request: ProofRequest) -> Proof:
    """Make the folder of a proof, or open that which is continued. Raises `UsageError`."""
    budget_s = parse_budget(request.budget)
    earlier = against.read(request.against) if request.against else None
    app = judge.application
    digest, sets = folder.digest_of(app.files), [faults.id for faults in judge.plan.sets]
    if request.resume:
        place = ProofFolder.open(request.resume)
        place.check(app.files[0], digest, sets)
        return Proof(judge, place, budget_s, earlier)
    path = (request.into or request.runs_dir / new_run_id(f"prove-{app.title}")).absolute()
    file = str(app.files[0].absolute())
    planned = folder.Plan(
        app=file, digest=digest, seed=judge.seed, most=request.most, sets=sets, select=list(request.select)
    )
    return Proof(judge, ProofFolder.create(path, planned), budget_s, earlier)


def parse_budget(text: str | None) -> float | None:
    """Return the seconds of a budget; None for none. Raises `UsageError` for one that allows no run."""
    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError as e:
        raise UsageError(f"--for: {e}") from None
    if seconds < LEAST_S:
        raise UsageError(
            f"--for {text} is too small for one run: brokers and judge have to start, and a run with a fault takes its "
            "time; give at least 1m, better 30m"
        )
    return seconds


def run_proof(
    proof: Proof, listener: ProgressListener, report: Callable[[ProofRun], bool | None], jobs: int = 2
) -> ProofResult:
    """Run what is planned and not stored yet, judge all stored runs, and write the result and its pages.

    report: called with each finished run; no other run begins after it has returned True.
    After an interruption the finished runs are judged, too. Raises as `Lab.drive`.
    """
    judge, place = proof.judge, proof.folder
    sets = judge.plan.sets
    listener.say(f"{len(sets)} sets of faults, the most dangerous ones first; in {place.path}")
    planned = [task(judge.application, faults, judge.seed) for faults in sets]
    started = time.monotonic()
    try:
        deadline = None if proof.budget_s is None else started + proof.budget_s
        Crew(place, judge.follow_up, listener, report, jobs).run(planned, deadline)
    except BaseException:
        listener.say(f"the finished runs are stored; continue with --resume {place.path}")
        raise
    finally:
        place.spend(time.monotonic() - started)
        result = judge_proof(proof)
    return result


def prove(request: ProofRequest, listener: ProgressListener) -> ProofResult:
    """Plan a proof and run it. Raises as `plan_proof`, `open_proof` and `run_proof`."""
    proof = open_proof(plan_proof(request), request)
    return run_proof(proof, listener, lambda run: listener.say(describe(run)), request.jobs)


def describe(run: ProofRun) -> str:
    """Return a finished run as one line."""
    change = f" with {run.change}" if run.change else ""
    return f"{run.set}{change}: {run.state}: {run.sentence}"


def judge_proof(proof: Proof) -> ProofResult:
    """Judge the stored runs, and write proof.json and its pages. Raises `AftershockError`."""
    place = proof.folder
    result = proof.judge.result(place.runs(), place.plan.spent_s)
    if proof.earlier is not None:
        found = against.changes(proof.earlier, result)
        result = result.model_copy(update={"against": f"the proof of {proof.earlier.name}", "changes": found})
    write_atomically(place.path / RESULT, result.model_dump_json(indent=1) + "\n")
    done = run_module("checks.report", "proof", str(place.path))
    if done.returncode:
        reason = (done.stderr.strip() or "no reason was given").splitlines()[-1]
        raise AftershockError(f"{RESULT} is in {place.path}, but its pages could not be written: {reason}")
    return result
