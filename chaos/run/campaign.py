"""Typed models of the files of a campaign: `runs.jsonl`, a line for each finished run, and the head of `campaign.json`.

A campaign is many runs with one question, such as a gate or a repetition (`chaos.campaign`). The page of a campaign is
drawn from `campaign.json` alone.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from chaos.run.outcome import RunOutcome
from chaos.run.result import Load, Metric, Verdict

RESULT = "campaign.json"
FORMAT = 1
Kind = Literal["catalogue", "repeat", "corpus", "shrink", "bisect", "replay", "gate", "clients", "proof"]


class Data(BaseModel):
    """A part of `campaign.json`: frozen, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Purpose = Literal["first", "again", "smaller", "mended"]
RunState = Literal["held", "broken", "undecided", "unknown"]


class FoundAnomaly(Data):
    """An anomaly of a run. state: what the derived contract says about it, and `reason` why. text: a sentence."""

    name: str
    count: int
    state: Literal["forbidden", "allowed", "not decided"]
    reason: str
    text: str


class ProofRun(Data):
    """One run of a set of faults.

    set: ids of its faults, joined by +. change: the setting that a mended run has. state: broken, if a promise broke;
    undecided, if only anomalies appeared that the contract does not decide; unknown, if the run proves nothing, as a
    fault has no proof or nothing was written or read. examined: rows that the audit examined, by kind of anomaly.
    promised: the anomalies that the contract forbids under these faults. report, bundle: paths relative to
    the folder.
    """

    set: str
    purpose: Purpose = "first"
    change: str = ""
    n: int = 1
    seed: int
    verdict: Verdict
    state: RunState
    sentence: str
    anomalies: list[FoundAnomaly] = []
    examined: dict[str, int] = {}
    promised: list[str] = []
    acked: int = 0
    delivered: int = 0
    seconds: float = 0
    run_id: str = ""
    report: str = ""
    bundle: str = ""

    def found(self, state: str) -> list[FoundAnomaly]:
        """Return its anomalies about which the contract says this."""
        return [anomaly for anomaly in self.anomalies if anomaly.state == state]


class TrialRun(RunOutcome):
    """One finished run of a campaign.

    run_id: the name of its directory. part: what it counts for, such as a cell or a scenario. n: number of the
    repetition, from 1. kafka, client: releases as the brokers and clients reported them. seconds: from the start until
    the log was read back. report, bundle: paths relative to the folder, or empty. ran: False if the run could not start
    because the machine lacks a requirement. proof: what the run shows of the promises of an application.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    anomalies: dict[str, int] = {}
    run_id: str = ""
    part: str = ""
    n: int = 1
    seed: int
    times: list[Metric] = []
    load: Load = Load()
    kafka: str = ""
    client: str = ""
    seconds: float = 0
    report: str = ""
    bundle: str = ""
    ran: bool = True
    proof: ProofRun | None = None


class Rate(Data):
    """An event in `count` of `of` runs. The true rate is between `low` and `high` at 95 % confidence."""

    name: str
    count: int
    of: int
    low: float
    high: float


class Part(Data):
    """Runs that count together.

    expected: the anomalies that must appear, as text. conclusive: number of conclusive runs; failed: number of runs
    that broke the contract; low, high: bounds of the share of runs that break it, at 95 % confidence. rates: of broken
    contracts and of each anomaly, over the conclusive runs. state: what the part is in a search, such as
    `old` or `new`.
    """

    name: str
    verdict: Verdict
    sentence: str
    runs: list[TrialRun]
    failed: int
    conclusive: int
    low: float
    high: float
    expected: str = ""
    rates: list[Rate] = []
    state: str = ""


class Machine(Data):
    """The machine of the measurement. Times of different machines are hardly comparable."""

    platform: str
    cpus: int


class Head(BaseModel):
    """What a list of campaigns shows of a `campaign.json`; other keys are ignored."""

    kind: str
    title: str
    verdict: Verdict
    sentence: str
    made_us: int
    command: str
    repeat: int
    seed: int | None = None


class Campaign(Data):
    """The head of every `campaign.json`. repeat: planned runs of each part."""

    format: int = FORMAT
    kind: Kind
    title: str
    verdict: Verdict
    sentence: str
    command: str
    machine: Machine
    made_us: int
    seed: int | None
    repeat: int
    notes: list[str] = []


class PartsResult(Campaign):
    """`campaign.json` of a campaign that counts or searches: its parts, in the order of the plan.

    answer: what a search found: a release, or a scenario as YAML; empty if it found nothing.
    """

    parts: list[Part]
    answer: str = ""
