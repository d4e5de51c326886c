"""The comparison of a proof with an earlier one, by its card `campaign.json`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chaos.errors import RunDirError, UsageError
from chaos.run.directory import read_model
from chaos.run.proof_result import Break, Change, ProofResult, State

STATES: dict[State, str] = {
    "held": "held",
    "partly": "held in part",
    "unpromised": "not promised",
    "untested": "not tested",
    "unknown": "not known",
    "broken": "broken",
}
"""The states of a promise as text, the better ones first."""


def read(path: Path) -> ProofResult:
    """Return an earlier proof. Raises `UsageError` if it is none."""
    try:
        return read_model(path, ProofResult, "card of a proof", "give the campaign.json of an earlier one")
    except (RunDirError, OSError) as e:
        raise UsageError(f"--against: {e}") from None


def changes(before: ProofResult, now: ProofResult) -> list[Change]:
    """Return what differs: the states of promises, and what broke or was seen though it is not promised."""
    return [*_promises(before, now), *_anomalies(before, now)]


def _promises(before: ProofResult, now: ProofResult) -> Iterator[Change]:
    for promise in now.promises:
        earlier = before.promise(promise.id)
        then: State = earlier.state if earlier else "untested"
        if then != promise.state:
            ranks = list(STATES)
            worse = ranks.index(promise.state) > ranks.index(then)
            yield Change(title=promise.title, before=STATES[then], now=STATES[promise.state], worse=worse)


def _anomalies(before: ProofResult, now: ProofResult) -> Iterator[Change]:
    """Yield the anomalies that only one of both proofs has seen. What was not tried again is no improvement."""
    old, new = _by_name(before), _by_name(now)
    tried = {run.set for run in now.runs}
    for name in dict.fromkeys([*old, *new]):
        if (name in old) == (name in new):
            continue
        shown = new.get(name) or old[name]
        if name in old and shown.set not in tried:
            continue
        then, today = ("seen" if name in found else "not seen" for found in (old, new))
        yield Change(title=f"{name} under {shown.title}", before=then, now=today, worse=name in new)


def _by_name(proof: ProofResult) -> dict[str, Break]:
    return {found.anomalies[0].name: found for found in (*proof.broken, *proof.seen)}
