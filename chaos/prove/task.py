"""One run that a proof has to do."""

from __future__ import annotations

import random
from dataclasses import dataclass

from chaos.campaign.subject import Subject
from chaos.prove.application import Application
from chaos.prove.plan import FaultSet
from chaos.prove.scenarios import subject
from chaos.run.campaign import Purpose


@dataclass(frozen=True)
class Task:
    """A run of a set of faults. n: counts its runs for this purpose. change: the setting of a mended run."""

    faults: FaultSet
    purpose: Purpose
    n: int
    subject: Subject
    change: str = ""

    @property
    def run_id(self) -> str:
        """The name of the run directory."""
        return f"{self.faults.id}-{self.purpose}-{self.n}"

    @property
    def cuts_links(self) -> bool:
        """Whether it needs a cluster with a switch between the brokers."""
        return self.subject.scenario.switched


def task(
    application: Application, faults: FaultSet, seed: int, purpose: Purpose = "first", n: int = 1, change: str = ""
) -> Task:
    """Return a run of a set. seed: of the proof; each run has another one. Raises `ScenarioError`."""
    own = random.Random(f"{seed}/{faults.id}/{purpose}/{n}").randrange(2**31)
    return Task(faults, purpose, n, subject(application, faults, own), change)
