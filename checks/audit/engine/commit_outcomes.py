"""Outcomes of commits in a part: as the client recorded them, or as the log of offset commits decides them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checks.audit.arrays import NONE, Ints, Mask
from checks.audit.engine.blocks import COMMIT_FAILED, COMMIT_OK, COMMIT_UNKNOWN
from checks.audit.engine.counters import ATTEMPTS, COMPARED, UNANSWERED
from checks.audit.engine.group import Rows, sections
from checks.audit.engine.parts import Part
from checks.audit.engine.tally import Tally
from checks.audit.facts.commit_log import Acknowledged, Attempt, Decisions, Logged, Place, known
from checks.audit.facts.epochs import Committer

_CODES = {"ok": COMMIT_OK, "unknown": COMMIT_UNKNOWN}


def committers(part: Part) -> Iterator[tuple[Committer, Rows]]:
    """Yield each committer in a part of commits with its rows."""
    (consumers, clients), (groups, group_names) = part.codes("consumer"), part.codes("group")
    modes, mode_names = part.codes("mode")
    keys = consumers, part.ints("incarnation"), part.ints("assignment"), modes, groups
    for (consumer, life, assignment, mode, group), rows in sections(*keys):
        name = group_names[group] if group >= 0 else ""
        yield Committer(clients[consumer], life, assignment, mode_names[mode], name), rows


def outcomes(part: Part, decisions: Decisions) -> tuple[Ints, Ints, Ints]:
    """Return the outcome of each commit, when it had been carried out at the latest, and 1 where the log decides."""
    codes, names = part.codes("outcome")
    found = np.array([_CODES.get(name, COMMIT_FAILED) for name in names], np.int64)[codes]
    done_us = part.ints("completed_us").astype(np.int64)
    by_log = np.zeros(part.rows, np.int64)
    if decisions:
        for row, attempt in _attempts(part, np.flatnonzero(found == COMMIT_UNKNOWN)):
            if decision := decisions.of.get(attempt):
                found[row], done_us[row], by_log[row] = _CODES.get(decision.outcome, COMMIT_FAILED), decision.done_us, 1
    return found, done_us, by_log


def add_unanswered(part: Part, tally: Tally) -> None:
    """Add the place and offset of each commit without an outcome."""
    if part.rows:
        rows = np.flatnonzero(part.equals("outcome", "unknown"))
        tally.add(UNANSWERED, value={(a.place, a.offset) for _, a in _attempts(part, rows)})


def add_attempts(
    part: Part,
    wanted: frozenset[tuple[Place, int]],
    logged: Logged,
    deleted: frozenset[str],
    clock_us: int,
    tally: Tally,
) -> None:
    """Add the commits of some offsets that did not fail, and compare the acknowledged ones of their groups with the
    log, except commits of deleted topics. clock_us: the maximum difference of the clocks.
    """
    if not part.rows:
        return
    groups = {place[0] for place, _ in wanted}
    partition, offset = part.ints("partition").astype(np.int64), part.ints("offset")
    topics, names = part.codes("topic")
    ok, possible = part.equals("outcome", "ok"), part.equals("outcome", "ok", "unknown")
    timed = part.equals("kind", "sync", "async")
    offsets_of: dict[Place, list[int]] = {}
    for place, number in wanted:
        offsets_of.setdefault(place, []).append(number)
    chosen = np.zeros(part.rows, np.bool_)
    for committer, rows in committers(part):
        if committer.group not in groups:
            continue
        index = rows.index
        for (topic, number), here in sections(topics[index], partition[index]):
            place = committer.group, names[topic], number
            mine = index[here.index]
            chosen[mine] = possible[mine] & np.isin(offset[mine], offsets_of.get(place, []))
            if names[topic] not in deleted:
                _compare(part, mine[ok[mine]], timed, logged.get(place), clock_us, place[0], tally)
    attempts = [attempt for _, attempt in _attempts(part, np.flatnonzero(chosen))]
    tally.add(ATTEMPTS, value=attempts)


def _compare(
    part: Part, rows: Ints, timed: Mask, logged: tuple[Ints, Ints] | None, clock_us: int, group: str, tally: Tally
) -> None:
    """Compare acknowledged commits on one partition with the log."""
    offsets, times = logged or (np.zeros(0, np.int64), np.zeros(0, np.int64))
    offset = part.ints("offset")[rows]
    first, behind = np.searchsorted(offsets, offset), np.searchsorted(offsets, offset, "right")
    alone = (behind - first == 1) & timed[rows]
    appended = times[first[alone]]
    begin, end = (part.ints(name)[rows][alone] for name in ("requested_us", "completed_us"))
    in_time = (begin - clock_us <= appended) & (appended <= end + clock_us)
    found = Acknowledged(int((behind == first).sum()), int(in_time.sum()), int((~in_time).sum()))
    tally.add(COMPARED, group, value=found)


def _attempts(part: Part, rows: Ints) -> Iterator[tuple[int, Attempt]]:
    """Yield some rows as attempts."""
    if not len(rows):
        return
    of_row: dict[int, Committer] = {}
    chosen = np.zeros(part.rows, np.bool_)
    chosen[rows] = True
    for committer, section in committers(part):
        of_row |= dict.fromkeys(section.index[chosen[section.index]].tolist(), committer)
    (topics, names), (kinds, kind_names) = part.codes("topic"), part.codes("kind")
    outcomes_, outcome_names = part.codes("outcome")
    partition, offset = part.ints("partition"), part.ints("offset")
    requested, completed = part.ints("requested_us"), part.ints("completed_us")
    for row in rows.tolist():
        yield (
            row,
            Attempt(
                of_row[row],
                names[topics[row]],
                int(partition[row]),
                int(offset[row]),
                kind_names[kinds[row]] if kinds[row] != NONE else "",
                outcome_names[outcomes_[row]],
                known(int(requested[row])),
                known(int(completed[row])),
            ),
        )
