"""Typed model of `campaign.json` of an exploration: windows, what a random search covered, and what broke."""

from __future__ import annotations

from typing import Literal

from chaos.run.campaign import Data, Kind, Mechanism, PartsResult

Blow = Literal["kill", "answer", "stop", "broker"]
BLOWS: dict[Blow, str] = {
    "kill": "killed",
    "answer": "an answer lost",
    "stop": "asked to end",
    "broker": "killed with its broker",
}
"""What happens at a moment, in words, in the order of the columns of its tables."""
WRITES = ("OffsetCommit", "TxnOffsetCommit", "EndTxn", "ShareAcknowledge", "Produce")
"""The requests that change something at a broker: a client that does not get the answer has to ask again."""


def has_blow(moment: str, after: str, blow: Blow) -> bool:
    """Return whether a blow makes sense at a moment: an answer is lost once for each kind of request that writes."""
    return blow != "answer" or (moment, after) in {(f"{api} response", f"{api} request") for api in WRITES}


class Window(Data):
    """A window between two steps of an application. states: what each blow of `BLOWS` did there.

    runs: the directory of the run with each blow. Blows that were not tried are in neither.
    """

    app: str
    moment: str
    after: str
    states: dict[str, str]
    runs: dict[str, str]

    @property
    def title(self) -> str:
        """The window as text."""
        return f"{self.app}: {self.moment}" + (f" after {self.after}" if self.after else "")

    def untried(self, blow: Blow) -> str:
        """Return what stands in the place of a blow that was not tried."""
        return "not tried" if has_blow(self.moment, self.after, blow) else "-"


class Filed(Data):
    """One mechanism, filed once, with the first run that shows it.

    count: number of runs that show it. where: the windows, or the mixtures of faults, that broke by it. run, report,
    bundle: of the smallest scenario that shows it. faults: its faults as text. size: how far it was shrunk. scenario:
    its file.
    """

    mechanism: Mechanism
    count: int
    where: list[str]
    run: str
    report: str = ""
    bundle: str = ""
    faults: list[str] = []
    size: str = ""
    scenario: str = ""


class Covered(Data):
    """How often a kind of fault hit a role in a phase of the work: conclusive runs, other runs, broken contracts."""

    kind: str
    role: str
    phase: str
    runs: int = 0
    undecided: int = 0
    broke: int = 0


class ExploreResult(PartsResult):
    """`campaign.json` of an exploration: its windows, or what a random search covered, and what broke.

    open: number of cells of `covered` that could be drawn, with those without a run.
    """

    kind: Kind = "explore"
    windows: list[Window] = []
    filed: list[Filed] = []
    covered: list[Covered] = []
    open: int = 0
    seconds: float = 0
    per_hour: float = 0


Phase = Literal["start", "load", "moment", "rebalance", "overlap", "later"]
PHASES: dict[Phase, str] = {
    "start": "when the load begins",
    "load": "under the load",
    "moment": "at a moment of an application's work",
    "rebalance": "at a moment of a rebalance",
    "overlap": "while another fault is in",
    "later": "after another fault is healed, and quiet",
}
"""Where in the work the trigger of a fault is that was drawn at random."""
