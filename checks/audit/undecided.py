"""Reasons for which a rule cannot decide a row, each with what decides it in another run, if anything does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A reason. why: why rows are undecided, as a clause; advice: what to change, empty if nothing helps."""

    why: str
    advice: str = ""


COMMITS = "commits"
"""In table `undecided`, in place of a check: the commits of unknown outcome that every check leaves out."""

UNREAD = Reason("their partition is not in the log that was read back")
LOG_CUT = Reason(
    "they were acknowledged without an offset, and the log no longer begins at its first record",
    "keep retention beyond the end of the run and delete no records, or use acks other than 0, and a client that "
    "learns offsets",
)
SEVERAL_LIVES = Reason(
    "their topic was deleted and created again at that time, and neither the final log nor offsets show which of the "
    "topics they belong to"
)
NO_PLACE = Reason(
    "they were acknowledged without an offset or have no key, so their place among the records of their key is unknown",
    "use acks other than 0",
)
NO_END = Reason("their producer did not learn the end of a transaction that may concern them")
NO_REQUEST = Reason(
    "the ledger does not say when the end of their transaction was requested",
    "run the scenario again: clients record it now",
)
OPEN = Reason(
    "a transaction was open when the log was read back, so whether readers see its records is unknown",
    "set a transaction.timeout.ms that ends it before the run does",
)
NO_KEYS = Reason("records in the log without a known key may supersede them")
READ_WHEN = Reason("the ledger does not say when the log was read back")
PERHAPS_DELETED = Reason(
    "a tombstone of unknown offset, or one without a row, may have deleted their key and expired since",
    "set delete.retention.ms of the topic beyond the end of the run",
)
EXPIRED_MEANWHILE = Reason(
    "their tombstones may have expired while the log was read back",
    "set delete.retention.ms of the topic above the time that reading it back takes",
)
COMPACTED = Reason("their records may have been compacted away", "use a topic that is not compacted")
NO_BEGIN = Reason("where their reader began is unknown")
NO_PROGRESS = Reason("what their member had processed until then is unknown")
NO_PROMISE = Reason("how the group's assignor spreads partitions is unknown")
TIED_VOTE = Reason(
    "the members voted for two assignors equally often, and only one of these spreads partitions like this",
    "give the entries of the group the same assignors",
)
MIXED_TOPICS = Reason("members subscribe to different topics, for which their assignor promises no equal shares")
JUST_BEGUN = Reason("they had just begun when the drive ended", "keep the load running for longer")
TWO_RECORDS = Reason("the group got two different records at their offsets")
NO_COORDINATES = Reason("outputs carry no coordinates of their inputs")
INPUTS_GONE = Reason(
    "earlier inputs of their keys are not in the log that was read back",
    "keep retention of the input topic beyond the end of the run",
)
NO_INPUT = Reason("no input of their key is at the coordinates that they carry")
NO_COUNT = Reason("outputs carry no count")
OUTPUTS_GONE = Reason(
    "outputs are missing from the begin of their log", "keep retention of the output topic beyond the end of the run"
)
OUTPUTS_UNREAD = Reason("partitions of the output topic were not read back")
OUTPUTS_DELETED = Reason("the output topic was deleted during the run")
PERHAPS_PASSED = Reason("whether the group committed past them is unknown")
NO_CAUSE = Reason("whether their offsets expired, were lost or were deleted from outside is unknown")
NO_SHARE_BEGIN = Reason(
    "where the share group began is unknown: with share.auto.offset.reset=latest it begins at the end of the log",
    "set share.auto.offset.reset=earliest",
)
UNSEEN_ACQUISITIONS = Reason(
    "locks may have expired before a poll returned the records, which the ledger does not show",
    "lower max_poll_records, with share.acquire.mode=record_limit, so that no record waits in a member",
)
SHARE_RESET = Reason(
    "their delivery count may have fallen back with a new leader or the end of a member, and their last "
    "acknowledgement has no answer"
)
DISTURBED = Reason("a fault may have ended the connection of a member, and so its locks")
LOCK_WHEN = Reason(
    "when the broker locked them is unknown: a member may hold records for some time before a poll returns them",
    "lower max_poll_records, with share.acquire.mode=record_limit, so that no record waits in a member",
)
NO_LOCK = Reason(
    "the lock duration of the brokers is unknown", "set share.record.lock.duration.ms in the settings of the group"
)
NO_LIMIT = Reason(
    "the delivery limit of the brokers is unknown", "set share.delivery.count.limit in the settings of the group"
)
COMMIT_SHARED = Reason("another commit of the same offset may have written the record in the log")
COMMIT_WITHOUT_RECORD = Reason(
    "the log of offset commits has no record of them, but it is not whole, or their offset was seen in force"
)
COMMIT_IN_OPEN_TRANSACTION = Reason("their transaction was open when the log of offset commits was read back")
COMMIT_OF_DELETED_TOPIC = Reason("their topic was deleted during the run, and commits of both topics look alike")
CLOCKS_APART = Reason(
    "the clocks of clients and brokers differ, or no acknowledged commit shows that they do not",
    "synchronize the clocks",
)

SKEWED_BROKERS = Reason("a fault changed clocks of brokers, which stamp the log of offset commits")
PERHAPS_LATE = Reason(
    "their time is over, and a fault left a broker, by which retention goes, with a wrong clock",
    "heal the fault, and continue for longer than retention.ms and log.retention.check.interval.ms",
)
COMPACTED_WHEN = Reason(
    "compaction removed them before min.compaction.lag.ms was over, and a fault changed a clock by which it waits",
    "leave the fault out",
)
PERHAPS_EARLY = Reason(
    "they are below the start of the log, and a fault changed a clock by which retention deletes records",
    "keep retention.ms beyond the end of the run, or leave the fault out",
)


def commit_log_unread(error: str) -> Reason:
    """Return the reason for commits of a group of which the log was not read back, with the error if there was one."""
    why = "the log of offset commits was not read back" + (f" ({error})" if error else "")
    return Reason(why, "run the scenario again, with a user that may describe and read __consumer_offsets")
