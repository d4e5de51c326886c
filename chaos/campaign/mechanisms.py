"""Mechanisms: what a run broke and why, and the file of a search that has each of them once.

Two runs show the same mechanism if the same anomaly has the same cause. Of an effect, the wire shows the cause
(`chaos.anomalies.causes`); of another anomaly, it is the mechanism that the audit found, without its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from chaos.anomalies import ANOMALIES
from chaos.anomalies.causes import is_stopped
from chaos.errors import RunDirError
from chaos.run.campaign import Mechanism, TrialRun
from chaos.run.directory import Run
from chaos.run.result import EFFECTS, Expectation, Result, anomaly_name, effect_anomaly

UNDETERMINED = "not determined"


def with_mechanisms(stored: TrialRun, run: Run) -> TrialRun:
    """Return a line of `runs.jsonl` with what the run broke; unchanged if it broke nothing."""
    if stored.verdict != "fail":
        return stored
    try:
        result = Result.read(run)
    except RunDirError:
        return stored
    failed = [e for e in result.expectations if e.verdict == "fail"]
    found = {m.key: m for e in failed for m in _of(result, e)}
    return stored.model_copy(update={"mechanisms": list(found.values())})


def _of(result: Result, failed: Expectation) -> Iterator[Mechanism]:
    """Yield the mechanisms of one expectation that did not hold."""
    if failed.check == EFFECTS and not failed.split.startswith("late"):
        yield from _of_effect(result, failed)
    elif failed.check in ANOMALIES:
        yield from _of_anomaly(result, failed)
    else:
        yield Mechanism(name=failed.name, sentence=f"expected {failed.expected}, seen {failed.seen}")


def _of_effect(result: Result, failed: Expectation) -> Iterator[Mechanism]:
    name = effect_anomaly(failed.split, failed.scope)
    effect = next(effect for effect in result.effects if effect.name == failed.scope)
    stories = [story for story in effect.stories if story.kind == failed.split]
    for story in stories:
        yield Mechanism(
            name=name,
            cause=story.cause,
            stopped=is_stopped(story.cause),
            sentence=story.sentence,
            prevents=story.prevents,
        )
    if not stories:
        listed = effect.findings.get(failed.split, [])
        yield Mechanism(name=name, sentence=listed[0] if listed else f"seen {failed.seen}")


def _of_anomaly(result: Result, failed: Expectation) -> Iterator[Mechanism]:
    anomaly = ANOMALIES[failed.check]
    own = [f for f in result.findings if f.check == failed.check and failed.split in ("", f.split)]
    causes = {re.sub(r"\d[\d,.]*", "…", f.mechanism): f.mechanism for f in reversed(own)}
    for cause, sentence in (causes or {UNDETERMINED: ""}).items():
        known = cause != UNDETERMINED
        yield Mechanism(
            name=anomaly_name(failed.check, failed.split),
            cause=cause if known else "",
            sentence=sentence if known else f"{anomaly.meaning}: seen {failed.seen}",
            prevents=anomaly.prevents,
        )


def showing(runs: Iterable[TrialRun]) -> dict[tuple[str, str], list[TrialRun]]:
    """Return the runs that show each mechanism, both in the order in which they came."""
    found: dict[tuple[str, str], list[TrialRun]] = {}
    for run in runs:
        for mechanism in run.mechanisms:
            found.setdefault(mechanism.key, []).append(run)
    return found


def of_run(run: TrialRun, key: tuple[str, str]) -> Mechanism:
    """Return a mechanism that a run shows."""
    return next(mechanism for mechanism in run.mechanisms if mechanism.key == key)
