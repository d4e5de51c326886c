"""All commits on one partition, as the rules of commits see them."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.arrays import Columns, Ints
from checks.audit.engine.blocks import COMMIT_KINDS, COMMIT_OK
from checks.audit.engine.commit_history import CommitHistory
from checks.audit.engine.group import sections
from checks.audit.facts.epochs import Epoch
from checks.audit.facts.run_facts import Committer, RunFacts


class CommitBlock:
    """The accepted commits on one partition, the progress of each epoch on it, and the log as runs of offsets.

    progress: by index of the epoch, times and the highest offset + 1 processed. runs: by kind (`runs` of all records,
    `committed_runs` of those that read_committed readers see) the first and last offsets, ascending.
    """

    def __init__(
        self, topic: str, partition: int, commits: Columns, progress: Columns, runs: dict[str, Columns], facts: RunFacts
    ) -> None:
        self.topic, self.partition, self.facts = topic, partition, facts
        history = CommitHistory.of(topic, partition, commits, facts)
        self.commits = history.where(history["outcome"] == COMMIT_OK)
        self.progress: dict[int, tuple[Ints, Ints]] = {
            epoch: (rows.ints(progress["at_us"]), rows.ints(progress["reached"]))
            for (epoch,), rows in sections(progress["epoch"])
        }
        self.runs: dict[str, tuple[Ints, Ints]] = {}
        for kind, log in runs.items():
            order = np.argsort(log["first"], kind="stable")
            self.runs[kind] = log["first"][order], log["last"][order]

    def epoch_of(self, committer: Committer) -> Epoch | None:
        """Return the epoch of a committer on this partition, None if there is none on record."""
        return self.facts.epoch_of(committer, self.topic, self.partition)

    def commit(self, i: int, committer: Committer, at_us: int, evidence: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a finding about one commit; adds kind, assignment and incarnation to the evidence."""
        evidence = evidence | {
            "kind": COMMIT_KINDS[int(self.commits["kind"][i])],
            "assignment": committer.assignment,
            "consumer_incarnation": committer.incarnation,
        }
        offset = int(self.commits["offset"][i])
        row = {"topic": self.topic, "partition": self.partition, "offset": offset, "consumer": committer.consumer}
        return row | {"at_us": at_us, "evidence": evidence}
