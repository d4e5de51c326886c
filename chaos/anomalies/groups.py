"""Anomalies of consumer groups, counted per group."""

from __future__ import annotations

from functools import partial

from chaos.anomalies.model import Anomaly, anomaly

_group = partial(anomaly, "group")

GROUPS: dict[str, Anomaly] = {
    "overcommit": _group(
        "an offset was committed beyond what its member had processed",
        "commit only after processing (enable.auto.offset.store=false)",
        "No offset is committed beyond what was processed",
        "Offsets are committed beyond what was processed",
        "commits",
        "{n} {commits} {were} beyond what was processed",
    ),
    "commit_rewind": _group(
        "a commit lowered the committed offset, and no seek or restored checkpoint explains it",
        "commit from one place, in order; refuse late commits of a member that lost its partition",
        "No commit lowers the committed offset",
        "Commits lower the committed offset",
        "commits",
        "{n} {commits} lowered the committed offset",
    ),
    "expired_commit": _group(
        "committed offsets expired while their group had no members; counted once for each life of the group",
        "an offsets.retention.minutes longer than a group may be without members",
        "No committed offset expires",
        "Committed offsets expire",
        "commits",
        "{n} {times} the committed offsets of a group expired",
    ),
    "lost_commit": _group(
        "acknowledged commits are no longer in force, nor in their log if it was read, though nobody deleted or "
        "lowered them and they were not due to expire; counted once for each life of the group",
        "offsets.topic.replication.factor=3 and unclean.leader.election.enable=false",
        "No acknowledged offset commit is lost",
        "Acknowledged offset commits are lost",
        "commits",
        "{n} {times} a group lost acknowledged offset commits",
    ),
    "double_ownership": _group(
        "two members owned one partition in the same generation",
        "nothing a setting can do: report it as a bug of the assignor or the coordinator",
        "No partition has two owners at once",
        "Partitions have two owners at once",
        "assignments",
        "{n} {times} a partition had two owners at once",
    ),
    "foreign_commit": _group(
        "a reader resumed at an offset that another job had committed",
        "one group id per job",
        "No reader resumes where another job committed",
        "Readers resume where another job committed",
        "assignments",
        "{n} {times} a reader resumed where another job had committed",
    ),
    "zombie_commit": _group(
        "a commit was accepted from a member after another member had taken over its partition",
        "commit through the group's own member, with its generation; stop workers when partitions are revoked",
        "No commit is accepted from a member that lost the partition",
        "Commits are accepted from members that lost the partition",
        "commits",
        "{n} {commits} {were} accepted from a member that had lost the partition",
    ),
    "unbalanced_assignment": _group(
        "a settled group's partitions are not spread as its assignor promises",
        "the same partition.assignment.strategy in all members",
        "Partitions are spread as the assignor promises",
        "Partitions are not spread as the assignor promises",
        "settled assignments",
        "{n} {times} a settled group's partitions were not spread as its assignor promises",
    ),
    "misplaced_coordinator": _group(
        "the group's coordinator is not the leader of its partition of __consumer_offsets",
        "nothing a setting can do: report it as a bug of the broker",
        "The coordinator is where the group's id puts it",
        "The coordinator is not where the group's id puts it",
        "observed coordinators",
        "{n} {times} a group's coordinator was not the leader of its offsets partition",
    ),
}
