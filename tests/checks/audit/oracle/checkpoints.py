"""Where an assign consumer may go on after a crash."""

from __future__ import annotations

from tests.checks.audit.oracle.epochs import Epoch
from tests.checks.audit.oracle.facts import Case


def stored(e: Epoch, case: Case) -> int | None:
    """The last checkpoint that the incarnations before have a row of."""
    rows = [
        (r["incarnation"], r["at_us"], r["position"])
        for r in case.rows["assignments"]
        if r["event"] == "checkpoint"
        and (r["consumer"], r["topic"], r["partition"]) == (e.consumer, e.topic, e.partition)
        and r["incarnation"] < e.key[1]
        and r["position"] is not None
    ]
    return max(rows)[2] if rows else None


def may_restore(offset: int | None, mine: list[Epoch], stores: bool, last_stored: int | None) -> bool:
    """Exactly where it stopped processing; if it stores checkpoints apart, not before the last one with a row, and not
    beyond what it had processed or stored.
    """
    if offset is None:
        return True
    lives = sorted(mine, key=lambda p: p.key[1:3])
    begun = lives[0].start if lives else None
    ends = [p.offsets[-1] + 1 for p in lives if p.offsets]
    processed = ends[-1] if ends else begun
    if not stores:
        return processed is None or offset == processed
    lowest = begun if last_stored is None else last_stored
    return lowest is None or lowest <= offset <= max(lowest, processed or 0)
