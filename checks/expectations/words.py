"""How findings, times and numbers are told to a person."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """One kind of finding in words.

    rule: the stem of its GX class. none, some: its name where it must not, and where it may or must appear. of: what
    was examined. told: what was found, past tense; {n} is the number, {records}, {commits}, {times}, {were} follow it.
    """

    rule: str
    none: str
    some: str
    of: str
    told: str


FINDINGS: dict[tuple[str, str], Words] = {
    ("lost_write", ""): Words(
        "LostWrites",
        "No acknowledged record is lost",
        "Acknowledged records are lost",
        "acknowledged records",
        "{n} acknowledged {records} {were} lost",
    ),
    ("duplicate_write", ""): Words(
        "DuplicateWrites",
        "No record is written twice",
        "Records are written twice",
        "records in the log",
        "{n} {records} {were} written more than once",
    ),
    ("reordered_write", ""): Words(
        "ReorderedWrites",
        "No record is written out of order",
        "Records are written out of order",
        "records in the log",
        "{n} {records} {were} written out of order",
    ),
    ("misplaced_write", ""): Words(
        "MisplacedWrites",
        "Every acknowledged record is at the acknowledged offset",
        "Acknowledged records are at other offsets than acknowledged",
        "acknowledged records",
        "{n} acknowledged {records} {were} found at another offset",
    ),
    ("misrouted_write", ""): Words(
        "MisroutedWrites",
        "Every record is in the partition that its partitioner promises",
        "Records are in other partitions than their partitioner promises",
        "acknowledged records of such partitioners",
        "{n} {records} {were} acknowledged in another partition than promised",
    ),
    ("unnoticed_failure", ""): Words(
        "UnnoticedFailures",
        "No record fails without its producer being told",
        "Records fail and their producer is not told",
        "records of producers that look at no delivery report",
        "{n} {records} failed without their producer noticing",
    ),
    ("phantom_write", ""): Words(
        "PhantomWrites",
        "No record is in the log that nobody sent",
        "Records are in the log that nobody sent",
        "records in the log",
        "{n} {records} in the log {were} sent by no producer of this run",
    ),
    ("corrupt_record", ""): Words(
        "CorruptRecords",
        "No record is corrupt",
        "Records are corrupt",
        "records in the log",
        "{n} {records} {were} corrupt",
    ),
    ("skipped_delivery", ""): Words(
        "SkippedDeliveries",
        "No record is skipped",
        "Records are skipped",
        "records to deliver",
        "{n} {records} {were} skipped",
    ),
    ("stalled_delivery", ""): Words(
        "StalledDeliveries",
        "Every partition is read to its end",
        "Partitions are not read to their end",
        "records to deliver",
        "{n} {records} {were} not delivered when the drain ended",
    ),
    ("lost_processing", ""): Words(
        "LostProcessing",
        "No record is committed past without being processed",
        "Records are committed past without being processed",
        "records to deliver",
        "{n} {records} {were} committed past, yet never processed",
    ),
    ("duplicate_delivery", "legal"): Words(
        "LegalRedeliveries",
        "No record is delivered again from a committed offset",
        "Records are delivered again from a committed offset",
        "deliveries",
        "{n} {records} {were} delivered again, from the committed offset",
    ),
    ("duplicate_delivery", "illegal"): Words(
        "IllegalRedeliveries",
        "No record is delivered again without a legal start position",
        "Records are delivered again without a legal start position",
        "deliveries",
        "{n} {records} {were} delivered again without a legal start position",
    ),
    ("nonmonotonic_poll", ""): Words(
        "NonmonotonicPolls",
        "Within an assignment offsets only rise",
        "Within an assignment offsets fall",
        "deliveries",
        "{n} {records} {were} delivered below an earlier offset of the same assignment",
    ),
    ("poll_skip", ""): Words(
        "PollSkips",
        "Within an assignment no offset is left out",
        "Within an assignment offsets are left out",
        "deliveries",
        "{n} {records} {were} left out within an assignment",
    ),
    ("dirty_read", ""): Words(
        "DirtyReads",
        "Every delivered record is in the final log",
        "Records are delivered that are not in the final log",
        "deliveries",
        "{n} delivered {records} {were} not in the final log",
    ),
    ("overcommit", ""): Words(
        "Overcommits",
        "No offset is committed beyond what was processed",
        "Offsets are committed beyond what was processed",
        "commits",
        "{n} {commits} {were} beyond what was processed",
    ),
    ("commit_rewind", ""): Words(
        "CommitRewinds",
        "No commit lowers the committed offset",
        "Commits lower the committed offset",
        "commits",
        "{n} {commits} lowered the committed offset",
    ),
    ("double_ownership", ""): Words(
        "DoubleOwnerships",
        "No partition has two owners at once",
        "Partitions have two owners at once",
        "assignments",
        "{n} {times} a partition had two owners at once",
    ),
    ("foreign_commit", ""): Words(
        "ForeignCommits",
        "No reader resumes where another job committed",
        "Readers resume where another job committed",
        "assignments",
        "{n} {times} a reader resumed where another job had committed",
    ),
    ("resurrected_write", ""): Words(
        "ResurrectedWrites",
        "No record is in the log whose send definitely failed",
        "Records are in the log whose send definitely failed",
        "records in the log",
        "{n} {records} whose send definitely failed {were} in the log",
    ),
    ("offset_reuse", ""): Words(
        "OffsetReuses",
        "No offset is given to two records",
        "Offsets are given to two records",
        "acknowledgements and deliveries",
        "{n} {times} one offset was given to two records",
    ),
    ("torn_transaction", ""): Words(
        "TornTransactions",
        "Every transaction is visible as a whole or not at all",
        "Transactions are visible in part",
        "records of transactions",
        "{n} {records} {were} on the wrong side of a transaction's end",
    ),
    ("hanging_transaction", ""): Words(
        "HangingTransactions",
        "No transaction is left hanging",
        "Transactions are left hanging",
        "changes of last stable offsets",
        "{n} {times} a transaction hung: the last stable offset stood still",
    ),
    ("evicted_delivery", ""): Words(
        "EvictedDeliveries",
        "No record is evicted before it was read",
        "Records are evicted before they were read",
        "records to deliver",
        "{n} {records} {were} evicted before any member read them",
    ),
    ("aborted_read", ""): Words(
        "AbortedReads",
        "No record of an aborted transaction is delivered",
        "Records of aborted transactions are delivered",
        "delivered records of transactions",
        "{n} {records} of aborted transactions {were} delivered",
    ),
    ("precommitted_read", ""): Words(
        "PrecommittedReads",
        "No record is delivered before its transaction is committed",
        "Records are delivered before their transaction is committed",
        "delivered records of transactions",
        "{n} {records} {were} delivered before their transaction was committed",
    ),
    ("zombie_commit", ""): Words(
        "ZombieCommits",
        "No commit is accepted from a member that lost the partition",
        "Commits are accepted from members that lost the partition",
        "commits",
        "{n} {commits} {were} accepted from a member that had lost the partition",
    ),
    ("unbalanced_assignment", ""): Words(
        "UnbalancedAssignments",
        "Partitions are spread as the assignor promises",
        "Partitions are not spread as the assignor promises",
        "settled assignments",
        "{n} {times} a settled group's partitions were not spread as its assignor promises",
    ),
    ("misplaced_coordinator", ""): Words(
        "MisplacedCoordinators",
        "The coordinator is where the group's id puts it",
        "The coordinator is not where the group's id puts it",
        "observed coordinators",
        "{n} {times} a group's coordinator was not the leader of its offsets partition",
    ),
}
"""The words of every (kind, split) of `chaos.anomalies.ANOMALIES`; a test holds the two together."""

TIMES: dict[str, tuple[str, str]] = {
    "produce_unavailability": ("ProduceUnavailability", "Produce unavailability"),
    "consume_unavailability": ("ConsumeUnavailability", "Consume unavailability"),
    "rebalance_duration": ("RebalanceDuration", "Rebalance duration"),
    "isr_recovery": ("IsrRecovery", "ISR recovery"),
    "election_time": ("ElectionTime", "Election time"),
    "ack_latency": ("AckLatency", "Acknowledgement latency"),
    "end_to_end_latency": ("EndToEndLatency", "End-to-end latency"),
    "commit_latency": ("CommitLatency", "Commit latency"),
}
"""The stem of the GX class and the name of every metric of `chaos.anomalies.METRICS`."""


def tell(kind: str, split: str, count: int) -> str:
    """What was found: `37 acknowledged records were lost`, `No acknowledged record was lost`."""
    one = count == 1
    text = FINDINGS[kind, split].told.format(
        n=f"{count:,}" if count else "no",
        records="record" if count < 2 else "records",
        commits="commit" if count < 2 else "commits",
        times="time" if one else "times",
        were="was" if count < 2 else "were",
    )
    return text[0].upper() + text[1:]


def of(count: int, examined: int, what: str) -> str:
    """A count beside what was examined: `0 of 40,000 acknowledged records`."""
    return f"{count:,} of {examined:,} {what}"


def duration(us: int) -> str:
    """A time as a person reads it: `812 ms`, `9.8 s`, `15 s`, `2 min 5 s`."""
    if us < 1_000:
        return f"{us} us"
    if us < 999_500:
        return f"{us / 1_000:.3g} ms"
    if us < 119_950_000:
        return f"{round(us / 1_000_000, 1 if us >= 10_000_000 else 2):g} s"
    minutes, seconds = divmod(round(us / 1_000_000), 60)
    return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"


def listed(items: list[str], most: int = 3) -> str:
    """The first few of a list, and how many more there are."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")
