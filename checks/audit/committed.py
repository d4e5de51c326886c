"""Offset commits on one partition: when each may have taken effect, and what was known to be committed at a moment.

`known_of_commits` gets the commits alone, before anything is judged: what an epoch may begin at hangs on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checks.audit.epochs import Question
from checks.audit.large.case import Case, Committer
from checks.audit.large.columns import Ints
from checks.audit.large.cut import COMMITTED, KINDS, NOT_COMMITTED
from checks.audit.large.pack import Columns
from checks.audit.large.tally import Tally

OK = COMMITTED["ok"]
AUTO = KINDS.index("auto")


@dataclass
class History:
    """Commits on one partition that happened or may have, with from_us and to_us between which each took effect.

    An automatic commit is told after the fact, so it may have been made at any time since the one before it, or since
    its epoch began. A commit with outcome unknown may take effect until another one settles the matter.
    """

    rows: Columns

    @classmethod
    def of(cls, topic: str, partition: int, commits: Columns, case: Case) -> History:
        """From the rows of a block, `cut.COMMIT`."""
        kept = np.flatnonzero(commits["outcome"] != NOT_COMMITTED)
        order = kept[np.lexsort((commits["completed_us"][kept], commits["committer"][kept]))]
        rows = {name: column[order] for name, column in commits.items()}
        epochs = [case.epoch_of(committer, topic, partition) for committer in case.committers]
        begins = np.array([e.begin_us + 1 if e else 0 for e in epochs] or [0], np.int64)
        since = begins[rows["committer"]]
        again = np.flatnonzero(rows["committer"][1:] == rows["committer"][:-1]) + 1
        since[again] = rows["completed_us"][again - 1]
        rows["from_us"] = np.where(rows["kind"] == AUTO, since, rows["requested_us"])
        return cls(rows | {"to_us": rows["completed_us"]})

    def where(self, which: np.ndarray) -> History:
        """Some of them."""
        return History({name: column[which] for name, column in self.rows.items()})

    def __getitem__(self, name: str) -> Ints:
        return self.rows[name]

    def __len__(self) -> int:
        return len(self.rows["offset"])


def known_of_commits(topic: str, partition: int, commits: Columns, case: Case, tally: Tally) -> None:
    """For each epoch that asked for a committed offset here, what the commits on record say of that moment.

    Adds ("all", "known", number of the epoch): settled (to_us, from_us, offset of the last that had surely been made),
    own (the asking consumer's last offset), next_done, foreign, candidates (offset, consumer, mode, to_us), all that
    may have been in force.
    """
    history = History.of(topic, partition, commits, case)
    assign = np.array([c.mode == "assign" for c in case.committers])
    for question in case.questions.get((topic, partition), []):
        same_group = np.array([c.group == question.group for c in case.committers])
        same_consumer = np.array([c.consumer == question.consumer for c in case.committers])
        mine = history.where(same_group[history["committer"]])
        if len(mine):
            found = _known(question, mine, same_consumer[mine["committer"]], case.committers)
            found["foreign"] = bool(assign[mine["committer"]].any())
            tally.add("all", "known", question.epoch, value=[found])


def _known(question: Question, made: History, own: np.ndarray, committers: list[Committer]) -> dict[str, object]:
    ok, ends = made["outcome"] == OK, made["to_us"]
    settled = _last(made, ok & (ends <= question.fetched_us), ("to_us", "from_us", "offset"))
    mine = _last(made, ok & own & (ends <= question.begin_us), ("to_us", "offset"))
    later = ends[made["from_us"] > question.begin_us]
    # whatever had ended before the settled commit was even requested has been overwritten
    may = made["from_us"] <= question.begin_us
    if settled is not None:
        may &= ends >= settled["from_us"]
    last: dict[tuple[int, int], int] = {}
    columns = (made[n][may].tolist() for n in ("offset", "committer", "to_us"))
    for offset, committer, to_us in zip(*columns, strict=True):
        last[offset, committer] = max(last.get((offset, committer), to_us), to_us)
    return {
        "settled": settled,
        "own": mine,
        "next_done": int(later.min()) if len(later) else None,
        "candidates": sorted((o, committers[c].consumer, committers[c].mode, to_us) for (o, c), to_us in last.items()),
    }


def _last(made: History, which: np.ndarray, keys: tuple[str, ...]) -> dict[str, int] | None:
    """The highest of some commits, by the first key, then the second, …"""
    rows = np.flatnonzero(which)
    if not len(rows):
        return None
    for key in keys:
        values = made[key][rows]
        rows = rows[values == values.max()]
    return {key: int(made[key][rows[0]]) for key in keys}
