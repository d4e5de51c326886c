"""Offset commits on one partition: when each may have taken effect, and what was committed when an epoch began."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checks.audit.arrays import Columns, Ints, Mask
from checks.audit.engine.blocks import COMMIT_FAILED, COMMIT_KINDS, COMMIT_OK
from checks.audit.engine.counters import COMMITS_AT_BEGIN
from checks.audit.engine.tally import Tally
from checks.audit.facts.epochs import OffsetFetch
from checks.audit.facts.run_facts import Committer, RunFacts

AUTO = COMMIT_KINDS.index("auto")


@dataclass
class CommitHistory:
    """Commits on one partition that took effect, or may have, between from_us and to_us.

    An automatic commit is reported afterwards, so it may have happened at any time since the one before it, or since
    its epoch began. A commit with outcome unknown may take effect until another commit settles the matter.
    """

    rows: Columns

    @classmethod
    def of(cls, topic: str, partition: int, commits: Columns, facts: RunFacts) -> CommitHistory:
        """Return the history of a block's commits; columns `blocks.COMMIT`."""
        kept = np.flatnonzero(commits["outcome"] != COMMIT_FAILED)
        order = kept[np.lexsort((commits["completed_us"][kept], commits["committer"][kept]))]
        rows = {name: column[order] for name, column in commits.items()}
        epochs = [facts.epoch_of(committer, topic, partition) for committer in facts.committers]
        begins = np.array([e.begin_us + 1 if e else 0 for e in epochs] or [0], np.int64)
        since = begins[rows["committer"]]
        repeated = np.flatnonzero(rows["committer"][1:] == rows["committer"][:-1]) + 1
        since[repeated] = rows["completed_us"][repeated - 1]
        rows["from_us"] = np.where(rows["kind"] == AUTO, since, rows["requested_us"])
        return cls(rows | {"to_us": rows["completed_us"]})

    def where(self, mask: Mask) -> CommitHistory:
        """Return the commits that a mask selects."""
        return CommitHistory({name: column[mask] for name, column in self.rows.items()})

    def __getitem__(self, name: str) -> Ints:
        return self.rows[name]

    def __len__(self) -> int:
        return len(self.rows["offset"])


def commits_at_begin(topic: str, partition: int, commits: Columns, facts: RunFacts, tally: Tally) -> None:
    """Add, for each epoch that fetched a committed offset here, the commits that may have been in force.

    The row holds settled (to_us, from_us and offset of the last commit that had certainly been made), own (the last
    commit of the same consumer), next_done (end of the first commit after the begin), foreign (whether assign-mode
    consumers commit to the group) and candidates (offset, consumer, mode, to_us).
    """
    history = CommitHistory.of(topic, partition, commits, facts)
    assign = np.array([c.mode == "assign" for c in facts.committers])
    for fetch in facts.fetches.get((topic, partition), []):
        same_group = np.array([c.group == fetch.group for c in facts.committers])
        same_consumer = np.array([c.consumer == fetch.consumer for c in facts.committers])
        to_group = history.where(same_group[history["committer"]])
        if len(to_group):
            row = _at_begin(fetch, to_group, same_consumer[to_group["committer"]], facts.committers)
            row["foreign"] = bool(assign[to_group["committer"]].any())
            tally.add(COMMITS_AT_BEGIN, fetch.epoch, value=[row])


def _at_begin(fetch: OffsetFetch, history: CommitHistory, own: Mask, committers: list[Committer]) -> dict[str, object]:
    ok, ends = history["outcome"] == COMMIT_OK, history["to_us"]
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
