"""Repetition: one scenario or incident, run many times, and the rate of each anomaly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from chaos.campaign import trials
from chaos.campaign.score import CONFIDENCE, Rate, rates
from chaos.campaign.subject import Request, Subject
from chaos.lab.lab import FinishedRun
from chaos.lab.progress import ProgressListener
from chaos.run.directory import write_json
from chaos.run.result import EXIT_CODES, merge
from chaos.scenario.resolve import seeds


@dataclass
class Repetition:
    """The finished runs of a repetition."""

    subject: Subject
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
            "conclusive": len(self.runs) - len(self.inconclusive),
            "confidence": CONFIDENCE,
            "interval": "Clopper-Pearson",
            "rates": [asdict(rate) for rate in self.rates],
            "trials": [
                {"run": r.run.run_id, "seed": r.seed, "seconds": round(r.seconds, 1), **r.outcome.model_dump()}
                for r in self.runs
            ],
        }


def repeat(
    request: Request, listener: ProgressListener, report: Callable[[Repetition], None] = lambda _: None
) -> Repetition:
    """Run a subject many times and write `repeat.json`.

    report: called with the finished runs at the end, also if the repetition breaks off after at least one run.
    Raises `UsageError`, `ScenarioError` or `RunDirError` for a bad request, and as `Lab.drive`.
    """
    subject, count = request.subject(), request.runs
    all_seeds = [subject.seed] * count if request.same_seed else seeds(subject.seed, count)
    lab = trials.new_lab("repeat", subject, request, listener)
    repetition = Repetition(subject)
    try:
        with lab:
            listener.say(f"{count} runs, in {lab.folder}")
            for run in lab.run_all(subject, all_seeds):
                repetition.runs.append(run)
                outcome = run.outcome
                detail = outcome.describe() if outcome.conclusive else outcome.sentence
                number = f"{len(repetition.runs)} of {count}"
                listener.say(f"{number}, seed {run.seed}: {outcome.verdict}, {detail} ({run.seconds:.0f} s)")
    finally:
        if repetition.runs:
            write_json(lab.folder / "repeat.json", repetition.as_json())
            report(repetition)
    return repetition
