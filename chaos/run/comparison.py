"""Typed model of `result.json` of an A/B scenario: the results of the variants side by side."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel

from chaos.run.result import Judged, Verdict


class Side(BaseModel):
    """One variant: the names of its run directories (run: the first), its worst verdict, and a sentence with it."""

    name: str
    run: str
    runs: list[str] = []
    verdict: Verdict
    sentence: str


class Difference(BaseModel):
    """A value of the scenario that differs between variants, by name of the variant."""

    path: str
    values: dict[str, str]


class Row(BaseModel):
    """The counts of one kind of anomaly or of rebalances, or the values of one time, by name of the variant.

    decides: whether the event occurs in another share of the runs of one variant. chance: the p-value of Fisher's exact
    test that these shares are the same, times the number of pairs of variants. shown: whether that is excluded.
    """

    name: str
    values: dict[str, str]
    decides: bool = False
    chance: float = 1.0
    shown: bool = False


class Comparison(Judged):
    """`result.json` of an A/B scenario."""

    content: ClassVar[str] = "comparison of variants"
    next_step: ClassVar[str] = "run the scenario again"

    sides: list[Side]
    differences: list[Difference]
    anomalies: list[Row]
    rebalances: list[Row] = []
    times: list[Row]
