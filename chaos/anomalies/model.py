"""The fields of a registered anomaly and of a registered time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from chaos.anomalies.wire import ON_WIRE

Path = Literal["write", "read", "group", "share", "quorum"]
PreventedBy = Literal["settings", "advice", "nothing"]
"""`nothing`: neither a setting nor its lack makes the anomaly legal, so it is a bug. `advice`: not a setting."""


@dataclass(frozen=True)
class Phrases:
    """The phrases that name one anomaly in a contract and in a report.

    absent: name of the expectation that forbids it. present:
    name of the expectation that allows or demands it. examined: noun phrase of the rows examined. found: sentence in
    the past tense with {n} for the number; {records}, {commits}, {times} and {were} follow the number, and {origin} is
    where the reader began.
    """

    absent: str
    present: str
    examined: str
    found: str

    def describe(self, count: int, origin: str = "where its reader began") -> str:
        """Return a sentence such as `37 acknowledged records were lost` or `No acknowledged record was lost`."""
        text = self.found.format(
            n=f"{count:,}" if count else "no",
            records="record" if count < 2 else "records",
            commits="commit" if count < 2 else "commits",
            times="time" if count == 1 else "times",
            were="was" if count < 2 else "were",
            origin=origin,
        )
        return text[0].upper() + text[1:]


@dataclass(frozen=True)
class Anomaly:
    """One kind of finding.

    path: the part of the pipeline that it concerns. meaning: the rule in one sentence. prevents: what prevents it, as
    text. phrases: by split; the key is empty if the anomaly is counted as a whole. wire: whether it is decided on what
    passed on the wire alone, with the ledger of `checks.wire.ledger`: `ON_WIRE`, or why it is not. What is not decided
    is never a pass. fewer, more: why the wire may show fewer or more findings than the ledgers of the clients, empty if
    it does not. prevented_by: what the text names.
    """

    path: Path
    meaning: str
    prevents: str
    phrases: Mapping[str, Phrases]
    wire: str
    prevented_by: PreventedBy = "settings"
    fewer: str = ""
    more: str = ""

    @property
    def hidden(self) -> str:
        """Why the wire alone does not decide it; empty if it does."""
        return "" if self.wire == ON_WIRE else self.wire

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts that are counted separately, such as `legal` and `illegal`; empty if it is counted as a whole."""
        return tuple(split for split in self.phrases if split)


def anomaly(
    path: Path,
    meaning: str,
    prevents: str,
    *phrases: str,
    wire: str,
    prevented_by: PreventedBy = "settings",
    fewer: str = "",
    more: str = "",
) -> Anomaly:
    """Return an anomaly that is counted as a whole. phrases: the fields of `Phrases`, in order."""
    return Anomaly(path, meaning, prevents, {"": Phrases(*phrases)}, wire, prevented_by, fewer, more)


@dataclass(frozen=True)
class Metric:
    """A time that a scenario may bound, measured in microseconds.

    meaning: from which event to which event.
    """

    meaning: str
    name: str
