"""Offset commits: their outcomes in a part, and on one partition when each may have taken effect and what was in force
when an epoch began.

An outcome is as the client recorded it, or as the log of offset commits decides it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from checks.audit.arrays import NONE, Columns, Ints, Mask
from checks.audit.engine.blocks import COMMIT_FAILED, COMMIT_KINDS, COMMIT_OK, COMMIT_UNKNOWN, Rows
from checks.audit.engine.counters import ATTEMPTS, COMMITS_AT_BEGIN, COMPARED, UNANSWERED
from checks.audit.engine.group import Rows as Chosen
from checks.audit.engine.group import sections
from checks.audit.engine.parts import Part
from checks.audit.engine.tally import Tally
from checks.audit.facts.commit_log import Acknowledged, Attempt, Decisions, Logged, Place, known
from checks.audit.facts.epochs import Committer, Epoch, OffsetFetch
from checks.audit.facts.run_facts import RunFacts

_CODES = {"ok": COMMIT_OK, "unknown": COMMIT_UNKNOWN}


def committers(part: Part) -> Iterator[tuple[Committer, Chosen]]:
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


AUTO = COMMIT_KINDS.index("auto")
BY_LOG = "decided_by_log"
"""In the evidence of a commit of unknown outcome."""


@dataclass
class CommitHistory:
    """Commits on one partition that took effect, or may have, between from_us and to_us.

    An automatic commit is reported afterwards, so it may have happened at any time since the one before it, or since
    its epoch began. A commit with outcome unknown may take effect until another commit settles the matter.
    """

    rows: Columns
    committers: list[Committer]
    """The committers of this partition; column `committer` is an index into this list."""

    @classmethod
    def of(cls, topic: str, partition: int, commits: Columns, facts: RunFacts) -> CommitHistory:
        """Return the history of a block's commits; kind `commits`."""
        kept = np.flatnonzero(commits["outcome"] != COMMIT_FAILED)
        order = kept[np.lexsort((commits["completed_us"][kept], commits["committer"][kept]))]
        rows = {name: column[order] for name, column in commits.items()}
        present, rows["committer"] = np.unique(rows["committer"], return_inverse=True)
        committers = [facts.committers[number] for number in present.tolist()]
        epochs = [facts.epoch_of(committer, topic, partition) for committer in committers]
        since = np.array([e.begin_us + 1 if e else 0 for e in epochs], np.int64)[rows["committer"]]
        repeated = np.flatnonzero(rows["committer"][1:] == rows["committer"][:-1]) + 1
        since[repeated] = rows["completed_us"][repeated - 1]
        rows["from_us"] = np.where(rows["kind"] == AUTO, since, rows["requested_us"])
        return cls(rows | {"to_us": rows["done_us"]}, committers)

    def where(self, mask: Mask) -> CommitHistory:
        """Return the commits that a mask selects."""
        return CommitHistory({name: column[mask] for name, column in self.rows.items()}, self.committers)

    def made_by(self, name: str, value: str) -> Mask:
        """Return which commits are of committers with a value in one of their fields."""
        made: Mask = np.array([getattr(c, name) == value for c in self.committers], np.bool_)[self["committer"]]
        return made

    def __getitem__(self, name: str) -> Ints:
        return self.rows[name]

    def __len__(self) -> int:
        return len(self.rows["offset"])


class CommitBlock:
    """The accepted commits on one partition, the progress of each epoch on it, and the log as runs of offsets.

    progress: by index of the epoch, times and the highest offset + 1 processed. runs: by kind (`runs` of all records,
    `committed_runs` of the records that read_committed readers see) the first and last offsets, ascending.
    """

    def __init__(self, topic: str, partition: int, facts: RunFacts, rows: Rows) -> None:
        self.topic, self.partition, self.facts = topic, partition, facts
        progress = rows["progress"]
        history = CommitHistory.of(topic, partition, rows["commits"], facts)
        self.commits = history.where(history["outcome"] == COMMIT_OK)
        self.progress: dict[int, tuple[Ints, Ints]] = {
            epoch: (section.ints(progress["at_us"]), section.ints(progress["reached"]))
            for (epoch,), section in sections(progress["epoch"])
        }
        self.runs: dict[str, tuple[Ints, Ints]] = {}
        for kind in ("runs", "committed_runs"):
            first, last = rows[kind]["first"], rows[kind]["last"]
            order = np.argsort(first, kind="stable")
            self.runs[kind] = first[order], last[order]

    def committer(self, i: int) -> Committer:
        """Return the committer of a commit."""
        return self.commits.committers[int(self.commits["committer"][i])]

    def epoch_of(self, committer: Committer) -> Epoch | None:
        """Return the epoch of a committer on this partition, None if there is none on record."""
        return self.facts.epoch_of(committer, self.topic, self.partition)

    def commit(self, i: int, at_us: int | None = None, **evidence: Any) -> dict[str, Any]:
        """Return a commit as the arguments of a finding. at_us: its end unless given."""
        by, kind = self.committer(i), COMMIT_KINDS[int(self.commits["kind"][i])]
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": int(self.commits["offset"][i]),
            "consumer": by.consumer,
            "at_us": int(self.commits["to_us"][i]) if at_us is None else at_us,
            "evidence": {
                **evidence,
                "kind": kind,
                **({BY_LOG: True} if self.commits["by_log"][i] else {}),
                "assignment": by.assignment,
                "consumer_incarnation": by.incarnation,
            },
        }


def commits_at_begin(topic: str, partition: int, commits: Columns, facts: RunFacts, tally: Tally) -> None:
    """Add, for each epoch that fetched a committed offset here, the commits that may have been in force.

    The row holds settled (to_us, from_us and offset of the last commit that had certainly been made), own (the last
    commit of the same consumer), next_done (end of the first commit after the begin), foreign (whether assign-mode
    consumers commit to the group) and candidates (offset, consumer, mode, to_us).
    """
    history = CommitHistory.of(topic, partition, commits, facts)
    for fetch in facts.fetches.get((topic, partition), []):
        to_group = history.where(history.made_by("group", fetch.group))
        if len(to_group):
            row = _at_begin(fetch, to_group)
            row["foreign"] = bool(to_group.made_by("mode", "assign").any())
            tally.add(COMMITS_AT_BEGIN, fetch.epoch, value=[row])


def _at_begin(fetch: OffsetFetch, history: CommitHistory) -> dict[str, object]:
    ok, ends, committers = history["outcome"] == COMMIT_OK, history["to_us"], history.committers
    own = history.made_by("consumer", fetch.consumer)
    settled = _last(history, ok & (ends <= fetch.fetched_us), ("to_us", "from_us", "offset"))
    later = ends[history["from_us"] > fetch.begin_us]
    # a commit that had ended before the settled one was requested has been overwritten
    possible = history["from_us"] <= fetch.begin_us
    if settled is not None:
        possible &= ends >= settled["from_us"]
    last: dict[tuple[int, int], int] = {}
    columns = (history[n][possible].tolist() for n in ("offset", "committer", "to_us"))
    for offset, committer, to_us in zip(*columns, strict=True):
        last[offset, committer] = max(last.get((offset, committer), to_us), to_us)
    return {
        "settled": settled,
        "own": _last(history, ok & own & (ends <= fetch.begin_us), ("to_us", "offset")),
        "next_done": int(later.min()) if len(later) else None,
        "candidates": sorted((o, committers[c].consumer, committers[c].mode, to_us) for (o, c), to_us in last.items()),
    }


def _last(history: CommitHistory, mask: Mask, keys: tuple[str, ...]) -> dict[str, int] | None:
    """Return the highest of some commits, by the first key, then the second and so on; None without a commit."""
    rows = np.flatnonzero(mask)
    if not len(rows):
        return None
    for key in keys:
        values = history[key][rows]
        rows = rows[values == values.max()]
    return {key: int(history[key][rows[0]]) for key in keys}
