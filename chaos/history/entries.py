"""Entries of the history: the data of a run that is recorded.

`chaos.history.runs` reads them from the directories of runs: it loads all of a scenario, and a look at the history does
not need that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.run.result import describe_anomalies

_COUNTED = re.compile(r"([a-z_]+(?: [\w.-]+)?) ([\d,]+)")
"""One part of the text of `describe_anomalies`."""


class Time(NamedTuple):
    """A `chaos.run.result.Metric` of a recorded run. A history has hundreds of thousands, so it is a plain tuple."""

    metric: str
    scope: str
    fault: str
    stat: str
    value_us: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Metric, scope, fault and statistic."""
        return self[:4]


@dataclass(frozen=True)
class Entry:
    """One run. `key` identifies it independently of its path; `digest` changes when the run is judged again.

    `seen` are the anomalies of the run as text.
    """

    key: str
    digest: str
    run_id: str
    scenario: str
    variant: str
    setup: str
    title: str
    verdict: str
    sentence: str
    seen: str
    seed: int
    kafka: str
    client: str
    began_us: int
    ended_us: int
    run_dir: str
    command: str
    times: tuple[Time, ...] = field(default=(), repr=False)

    @property
    def anomalies(self) -> dict[str, int] | None:
        """The counts in `seen` by name; None if the anomalies are not known."""
        if self.seen == describe_anomalies({}):
            return {}
        parts = [_COUNTED.fullmatch(part) for part in self.seen.split(", ")]
        found = {part[1]: int(part[2].replace(",", "")) for part in parts if part}
        return found if len(found) == len(parts) else None
