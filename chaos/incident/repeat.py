"""Repetition: one scenario or incident, run many times, and the rate of each anomaly."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from chaos.incident import trials
from chaos.incident.rates import CONFIDENCE, Rate, rates
from chaos.incident.subject import Subject, SubjectRequest
from chaos.lab.lab import FinishedRun
from chaos.lab.progress import ProgressListener
from chaos.run.directory import write_atomically
from chaos.run.result import EXIT_CODES, merge
from chaos.scenario.resolve import new_seed


@dataclass(frozen=True)
class RepeatRequest:
    """A subject and the number of runs. same_seed: use one seed for all runs instead of one for each."""

    subject: SubjectRequest
    runs: int
    runs_dir: Path
    same_seed: bool = False
    i_own_this_cluster: bool = False


@dataclass
class Repetition:
    """The finished runs of a repetition."""

    subject: Subject
    folder: Path
    runs: list[FinishedRun] = field(default_factory=list)

    @property
    def rates(self) -> list[Rate]:
        """The rate of broken contracts and of each anomaly."""
        return rates([run.outcome for run in self.runs])

    @property
    def inconclusive(self) -> list[FinishedRun]:
        """The runs that do not count."""
        return [run for run in self.runs if not run.outcome.conclusive]

    @property
    def exit_code(self) -> int:
        """The exit code of the worst verdict."""
        return EXIT_CODES[merge(run.outcome.verdict for run in self.runs)]

    def as_json(self) -> dict[str, object]:
        """Return the content of `repeat.json`."""
        return {
            "scenario": self.subject.name,
            "given": self.subject.source,
            "runs": len(self.runs),
            "told": len(self.runs) - len(self.inconclusive),
            "confidence": CONFIDENCE,
            "interval": "Clopper-Pearson",
            "rates": [asdict(rate) for rate in self.rates],
            "trials": [
                {"run": r.run.run_id, "seed": r.seed, "seconds": round(r.seconds, 1), **r.outcome.model_dump()}
                for r in self.runs
            ],
        }


def repeat(
    request: RepeatRequest, listener: ProgressListener, report: Callable[[Repetition], None] = lambda _: None
) -> Repetition:
    """Run a subject many times and write `repeat.json`.

    report: called with the finished runs at the end, also if the repetition breaks off after at least one run.
    Raises `UsageError`, `ScenarioError` or `RunDirError` for a bad request, and as `Lab.drive`.
    """
    subject = request.subject.load()
    seed = new_seed() if subject.seed is None else subject.seed
    repetition = Repetition(subject, trials.new_folder(request.runs_dir, f"repeat-{subject.name}"))
    try:
        with trials.TrialLab(repetition.folder, listener, request.i_own_this_cluster) as lab:
            listener.say(f"{request.runs} runs, in {repetition.folder}")
            for run in lab.run_all(subject, [seed] * request.runs if request.same_seed else seeds(seed, request.runs)):
                repetition.runs.append(run)
                outcome = run.outcome
                detail = outcome.describe() if outcome.conclusive else outcome.sentence
                listener.say(
                    f"{len(repetition.runs)} of {request.runs}, seed {run.seed}: {outcome.verdict}, {detail} "
                    f"({run.seconds:.0f} s)"
                )
    finally:
        if repetition.runs:
            write_atomically(repetition.folder / "repeat.json", json.dumps(repetition.as_json(), indent=1) + "\n")
            report(repetition)
    return repetition


def seeds(base: int, count: int) -> list[int]:
    """Return different seeds that depend only on the base; the first is the base itself."""
    rng = random.Random(f"{base}:repeat")
    drawn = [base]
    while len(drawn) < count:
        if (seed := rng.randrange(2**31)) not in drawn:
            drawn.append(seed)
    return drawn
