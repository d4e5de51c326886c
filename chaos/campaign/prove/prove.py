"""The use cases of a proof: plan it, run it or go on with it, and judge its stored runs."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

from chaos.campaign.at_once import chosen
from chaos.campaign.engine import Budget, Plan, Report, Trial, conduct
from chaos.campaign.folder import Asked, Folder, lasting, resumed
from chaos.campaign.moments import BASELINE, source_of
from chaos.campaign.prove import application
from chaos.campaign.prove.judge import ProofJudge, changes, observe, read_earlier
from chaos.campaign.prove.plan import BASELINE as NO_FAULT
from chaos.campaign.prove.plan import FollowUp, Task, plan, task
from chaos.campaign.prove.program import announced, subject_of
from chaos.campaign.windows import Exploration
from chaos.errors import AftershockError, UsageError
from chaos.guarantees.application import Options
from chaos.guarantees.supports import fault_classes, outcomes
from chaos.kafka.settings import Scalar
from chaos.lab.lab import FinishedRun
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import ProofRun, TrialRun
from chaos.run.directory import Run
from chaos.run.proof import ProofResult
from chaos.run.result import merge as worst
from chaos.scenario.resolve import new_seed

MOST = 2
KIND = "proof"


def proven(runs: Sequence[TrialRun]) -> list[ProofRun]:
    """Return what the stored runs of a proof show."""
    return [run.proof for run in runs if run.proof is not None]


@dataclass
class Proving(Plan):
    """First the runs that follow from stored ones, then the planned sets. Each run that breaks a promise is packed."""

    bundles = False

    planned: Sequence[Task]
    follow_up: FollowUp
    _tasks: dict[str, Task] = field(default_factory=dict)

    def trials(self, runs: Sequence[TrialRun]) -> Sequence[Trial]:
        """Return the runs that are wanted after these."""
        following = self.follow_up.tasks(proven(runs))
        self._tasks |= {task.run_id: task for task in (*self.planned, *following)}
        urgent = [self._trial(task, ("urgent", task.run_id)) for task in following]
        known = {trial.run_id for trial in urgent}
        return [*urgent, *(self._trial(t, tier(t)) for t in self.planned if t.run_id not in known)]

    def is_over(self, runs: Sequence[TrialRun]) -> bool:
        """Return whether nothing works without faults, so that no other run can show anything."""
        own = [run for run in proven(runs) if run.set == NO_FAULT and run.purpose != "mended"]
        return sum(run.state == "unknown" for run in own) > 1

    def observe(self, trial: Trial, finished: FinishedRun, folder: Folder) -> TrialRun:
        """Return what is stored of a run: its anomalies with the contract, and whether it proves anything."""
        proof = observe(self._tasks[trial.run_id], finished, folder)
        return super().observe(trial, finished, folder).model_copy(update={"proof": proof, "bundle": proof.bundle})

    def describe(self, run: TrialRun) -> str:
        """Return what a run shows of the promises."""
        return f"{run.proof.state}: {run.proof.sentence}" if run.proof is not None else run.sentence

    def _trial(self, task: Task, of_tier: tuple[object, ...]) -> Trial:
        title = f"{task.faults.id} with {task.change}" if task.change else task.faults.id
        return Trial(
            run_id=task.run_id,
            subject=task.subject,
            part=task.faults.id,
            n=task.n,
            title=title,
            listed=(f"prove {self.follow_up.application.title}", title),
            tier=of_tier,
            cluster=f"switched {task.cuts_links}",
        )


@dataclass
class SettingsAndProgram(Plan):
    """The runs of the settings, and the runs of the program itself, in turn."""

    bundles = False

    settings: Proving
    program: Exploration
    _of_program: set[str] = field(default_factory=set)

    def trials(self, runs: Sequence[TrialRun]) -> Sequence[Trial]:
        """Return the runs that are wanted after these."""
        of_settings, of_program = apart(runs)
        programs = self.program.trials(of_program)
        self._of_program |= {trial.run_id for trial in programs}
        done = {run.run_id for run in runs}
        both = [
            () if plan.is_over(own) else [trial for trial in trials if trial.run_id not in done]
            for plan, own, trials in (
                (self.settings, of_settings, self.settings.trials(of_settings)),
                (self.program, of_program, programs),
            )
        ]
        return [trial for pair in zip_longest(*both) for trial in pair if trial is not None]

    def is_over(self, runs: Sequence[TrialRun]) -> bool:
        """Return whether neither can go on."""
        of_settings, of_program = apart(runs)
        return self.settings.is_over(of_settings) and self.program.is_over(of_program)

    def observe(self, trial: Trial, finished: FinishedRun, folder: Folder) -> TrialRun:
        """Return what is stored of a run. A run in which the program breaks something is packed."""
        if trial.run_id not in self._of_program:
            return self.settings.observe(trial, finished, folder)
        stored = self.program.observe(trial, finished, folder)
        bundle = folder.pack_run(stored.run_id) if stored.verdict == "fail" else ""
        return stored.model_copy(update={"bundle": bundle})

    def at_once(self, runs: Sequence[TrialRun]) -> int | None:
        """Return 1 if two runs of the program would share something."""
        return self.program.at_once(apart(runs)[1])

    def describe(self, run: TrialRun) -> str:
        """Return what a run shows of the settings, or of the program."""
        return self.settings.describe(run) if run.proof is not None else f"program: {self.program.describe(run)}"


def apart(runs: Sequence[TrialRun]) -> tuple[list[TrialRun], list[TrialRun]]:
    """Return the runs of the settings, and the runs of the program."""
    return [run for run in runs if run.proof is not None], [run for run in runs if run.proof is None]


def tier(task: Task) -> tuple[object, ...]:
    """Return what is equal for runs that may change places: the number of faults, and whether they cut all supports."""
    return len(task.faults.faults), bool(task.faults.cuts_all)


@dataclass(frozen=True, kw_only=True)
class ProofRequest(Asked):
    """A proof. app: the application's file. most: faults of a set, 1 or 2. baseline: an earlier result.

    select: see `chaos.guarantees.application.Options`.
    """

    app: Path | None = None
    most: int = MOST
    baseline: Path | None = None
    bootstrap: str | None = None
    topic: str | None = None
    select: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proof:
    """A proof that was planned, and checked against its folder."""

    judge: ProofJudge
    folder: Folder
    asked: ProofRequest
    earlier: ProofResult | None

    @cached_property
    def program(self) -> Exploration | None:
        """The exploration of the program itself; None if app.yaml names none."""
        subject = subject_of(self.judge.application.file, self.judge.application.raw, self.judge.seed)
        return Exploration(subject, self.folder, watched=self.asked.jobs == 0) if subject is not None else None


def plan_proof(request: ProofRequest) -> tuple[ProofJudge, ProofRequest]:
    """Check the application; return the judge with the plan, and the request with all values.

    Nothing is started or written.
    Raises `UsageError` for bad input, and `ClusterError` if a cluster that is to be asked does not answer.
    """
    asked = resumed(request, KIND)
    path = asked.app
    if path is None:
        raise UsageError("give an app.yaml, or --resume with the folder of a proof")
    options = Options(app=path, bootstrap=asked.bootstrap, topic=asked.topic, select=asked.select)
    app = application.read(options)
    found = outcomes(app.facts)
    planned = plan(found, fault_classes(app.facts, app.names), asked.most)
    seed = new_seed() if asked.seed is None else asked.seed
    sets = {faults.id: faults for faults in planned.sets}
    follow_up = FollowUp(app, found, sets, seed, _mended(options))
    words = ["python -m chaos prove", shlex.quote(lasting(str(path)))]
    words += [f"--select {shlex.quote(name)}" for name in asked.select]
    given = {"most": asked.most if asked.most != MOST else None, "bootstrap": asked.bootstrap, "topic": asked.topic}
    words += [f"--{name} {value}" for name, value in {**given, "for": asked.budget}.items() if value]
    judge = ProofJudge(app, found, planned, follow_up, seed, " ".join([*words, f"--seed {seed}"]))
    earlier = asked.baseline.absolute() if asked.baseline else None
    subject_of(app.file, app.raw, seed)  # so that a mistake is known before anything starts
    return judge, replace(asked, app=path.absolute(), seed=seed, baseline=earlier)


def _mended(options: Options) -> Callable[[Mapping[str, Scalar]], application.Application]:
    """Return a function from other values of facts to the application with them. It reads each only once."""
    known: dict[str, application.Application | AftershockError] = {}

    def read(changed: Mapping[str, Scalar]) -> application.Application:
        key = str(sorted(changed.items()))
        if key not in known:
            try:
                known[key] = application.read(options, changed)
            except AftershockError as e:
                known[key] = e
        found = known[key]
        if isinstance(found, AftershockError):
            raise found
        return found

    return read


def open_proof(judge: ProofJudge, asked: ProofRequest) -> Proof:
    """Make the folder of a proof, or open an earlier folder. Raises `UsageError`, also for another application."""
    Budget.parse(asked.budget)
    earlier = read_earlier(asked.baseline) if asked.baseline else None
    app = judge.application
    digest = digest_of(app.files)
    parts = [{"set": faults.id, "digest": digest} for faults in judge.plan.sets]
    return Proof(judge, Folder.planned(asked, KIND, f"prove-{app.title}", parts), asked, earlier)


def digest_of(files: Iterable[Path]) -> str:
    """Return the digest of files: of their names and their bytes."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def run_proof(proof: Proof, listener: ProgressListener, report: Report[ProofResult] | None = None) -> ProofResult:
    """Run what is planned and not stored yet, judge all stored runs, and write the result and its pages.

    Raises as `conduct`.
    """
    judge, program, asked = proof.judge, proof.program, proof.asked
    if asked.jobs == 0:
        asked = replace(asked, jobs=chosen(program.subject.scenario if program else None, listener.say))
    listener.say(f"{len(judge.plan.sets)} sets of faults, the most dangerous ones first")
    planned = [task(judge.application, faults, judge.seed) for faults in judge.plan.sets]
    settings = Proving(planned, judge.follow_up)
    plan: Plan = settings
    if program is not None:
        program.say = listener.say
        listener.say(f"and the program {', '.join(program.apps)}, at every moment of its work")
        plan = SettingsAndProgram(settings, program)
    return conduct(plan, proof.folder, asked, listener, lambda runs: judged(proof, runs), report)


def judged(proof: Proof, runs: Sequence[TrialRun]) -> ProofResult:
    """Return what the stored runs show, and what differs from the earlier proof."""
    result = with_program(proof, runs, proof.judge.result(proven(runs), proof.folder.plan.spent_s))
    if proof.earlier is None:
        return result
    found = changes(proof.earlier, result)
    return result.model_copy(update={"compared_with": f"the proof of {proof.earlier.name}", "changes": found})


def with_program(proof: Proof, runs: Sequence[TrialRun], result: ProofResult) -> ProofResult:
    """Return the result with what the program itself shows, in one verdict and sentence."""
    if (program := proof.program) is None:
        return result
    own = apart(runs)[1]
    explored = program.result(own, result.command, proof.folder.plan.spent_s)
    shown = []
    if source := source_of(own) or (BASELINE if own else None):
        run = Run(proof.folder.path / program.run_id(source))
        shown = announced(run, program.apps[0], proof.judge.application.facts)
    differing = [setting.describe() for setting in shown if setting.differs]
    differs = f" The program has other settings than app.yaml says: {'; '.join(differing)}." if differing else ""
    return result.model_copy(
        update={
            "program": explored,
            "announced": shown,
            "per_hour": round(3600 * len(runs) / result.seconds, 1) if result.seconds else 0.0,
            "verdict": worst([result.verdict, explored.verdict]),
            "sentence": f"Settings: {result.sentence} Program: {explored.sentence}{differs}",
        }
    )
