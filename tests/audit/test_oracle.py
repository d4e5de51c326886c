"""Generated histories, many to an audit, against an oracle that goes through them record by record in plain Python."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.audit import audit
from tests.audit.story import Story, make_run, read_audit, resolved_of

BEYOND = 99
"""An offset that no log here reaches."""


@dataclass(frozen=True)
class Turn:
    """One epoch: where it began, what it delivered, and what it committed at its end."""

    position: int
    delivered: tuple[int, ...]
    committed: int | None


@dataclass(frozen=True)
class History:
    """written: the seq at each offset. acked: the seqs that were acknowledged. turns: the epochs of a group of two."""

    written: tuple[int, ...]
    acked: frozenset[int]
    turns: tuple[Turn, ...]


offsets = st.integers(0, 6)
turns = st.builds(
    Turn,
    position=offsets,
    delivered=st.frozensets(offsets, max_size=5).map(lambda s: tuple(sorted(s))),
    committed=st.none() | offsets,
)
histories = st.builds(
    History,
    written=st.lists(st.integers(0, 7), max_size=6).map(tuple),
    acked=st.frozensets(st.integers(0, 7), max_size=6),
    turns=st.lists(turns, min_size=1, max_size=4).map(tuple),
)


def tell(history: History, number: int) -> Story:
    s = Story(f"h{number}", number, now=1_000_000 * number, members=2)
    s.life(s.producer, "started", "crashed")
    for offset, seq in enumerate(history.written):
        s.log(offset, seq)
    for seq in sorted(history.acked):
        s.send(seq, history.written.index(seq) if seq in history.written else BEYOND)
    for nth, turn in enumerate(history.turns):
        source = "reset" if nth == 0 else "committed"
        epoch = s.assigned(1 + nth % 2, 0 if nth == 0 else turn.position, source, generation=nth + 1)
        known = dict(enumerate(history.written))
        epoch.got(*reads(history, nth), seq=lambda offset, known=known: known.get(offset, BEYOND))  # type: ignore[misc]
        if turn.committed is not None:
            epoch.commit(turn.committed)
        epoch.revoked()
    return s


def begin(history: History, nth: int) -> int:
    return history.turns[nth].position if nth else 0


def reads(history: History, nth: int) -> list[int]:
    """An epoch never reads below its start."""
    return [o for o in history.turns[nth].delivered if o >= begin(history, nth)]


def oracle(h: History) -> Counter[str]:
    found: Counter[str] = Counter()
    found["lost_write"] = len(h.acked - set(h.written))
    found["duplicate_write"] = len(h.written) - len(set(h.written))
    for offset, seq in enumerate(h.written):
        before = h.written[:offset]
        found["reordered_write"] += seq not in before and any(b > seq for b in before)
    _reading(h, found)
    _missing(h, found)
    return +found


def _reading(h: History, found: Counter[str]) -> None:
    """What goes wrong while reading: redeliveries, gaps within an epoch, commits."""
    in_force: int | None = None
    got: set[int] = set()
    for nth, turn in enumerate(h.turns):
        start, read = begin(h, nth), reads(h, nth)
        legal = nth == 0 or start == in_force
        for offset in read:
            found["dirty_read"] += offset >= len(h.written)
            if offset in got:
                found["duplicate_delivery.legal" if legal else "duplicate_delivery.illegal"] += 1
            got.add(offset)
        for offset in range(start, max(read, default=start)):
            found["poll_skip"] += offset < len(h.written) and offset not in read
        if turn.committed is not None:
            processed = max(read) + 1 if read else start
            found["overcommit"] += any(processed <= o < turn.committed for o in range(len(h.written)))
            found["commit_rewind"] += in_force is not None and turn.committed < in_force
            in_force = turn.committed


def _missing(h: History, found: Counter[str]) -> None:
    """What never came, and why."""
    delivered = {o for nth in range(len(h.turns)) for o in reads(h, nth)}
    passed = [_passed(h, nth) for nth in range(len(h.turns))]
    for offset in range(len(h.written)):
        if offset in delivered:
            continue
        lost = any(
            begin(h, nth) <= offset < passed[nth] and all(o < offset for o in reads(h, nth))
            for nth in range(len(h.turns))
        )
        later = max(delivered, default=-1) > offset or max(passed) > offset
        found["lost_processing" if lost else "skipped_delivery" if later else "stalled_delivery"] += 1


def _passed(h: History, nth: int) -> int:
    """How far an epoch committed, as its own commit or the next epoch's start shows."""
    following = [begin(h, nth + 1)] if nth + 1 < len(h.turns) else []
    return max((c for c in (h.turns[nth].committed, *following) if c is not None), default=-1)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(histories, min_size=60, max_size=60))
def test_the_audit_counts_what_the_oracle_counts(spark: Any, batch: list[History]) -> None:
    stories = [tell(history, number) for number, history in enumerate(batch, start=1)]
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run", stories)
        audit(spark, run, resolved_of(stories))
        summary = read_audit(run, "summary")
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for row in summary:
        name = f"{row['check']}.{row['split']}" if row["split"] else row["check"]
        counted[row["scope"]][name] += row["count"]
    for number, history in enumerate(batch, start=1):
        assert +counted[f"h{number}"] == oracle(history), history
