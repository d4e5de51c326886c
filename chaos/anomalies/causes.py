"""Why an application missed an effect, or had it twice: the causes that the wire shows, and what prevents each.

`checks.effects.story` finds the cause of a finding from the frames between an application and the brokers. `prevents`
has the way of each client library, by the names below; the key is empty for every other library. A library is known by
what it announces in ApiVersions (KIP-511), or by its usual client id if it announces nothing. A framework on top of a
library has its own way, and only its client id shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LIBRARIES: dict[str, str] = {
    "watermill": r"watermill",
    "faststream": r"faststream",
    "librdkafka": r"rdkafka|confluent-kafka",
    "java": r"apache-kafka-java",
    "franz-go": r"\bkgo\b|franz-go",
    "sarama": r"\bsarama\b",
    "kafka-go": r"segmentio/kafka-go",
    "aiokafka": r"aiokafka",
    "kafka-python": r"(?<!confluent-)kafka-python",
    "kafkajs": r"kafkajs",
    "platformatic": r"platformatic",
}
"""What a client announces, or has as its client id, as a regular expression; frameworks before their libraries."""

FRAMEWORKS = frozenset({"watermill", "faststream"})
"""Those on top of a library that announces itself."""
BENEATH = {"librdkafka": "Quix Streams", "sarama": "Watermill", "aiokafka": "FastStream or Faust"}
"""Libraries with frameworks on top of them that the wire does not always show: examples of these frameworks."""


ELSEWHERE = "elsewhere"


@dataclass(frozen=True)
class Cause:
    """One cause. text: the reason, which ends a sentence. prevents: what prevents it, by library.

    With the key `ELSEWHERE`, `prevents` has what prevents it for effects that are no records of a topic, unless a
    framework has its own way: its handler does all of the work.
    """

    text: str
    prevents: Mapping[str, str]

    def prevention(self, announced: str, of_topic: bool = True) -> str:
        """Return what prevents it for the library that announced itself as this text.

        of_topic: whether the effect is a record of a topic, so that a transaction of Kafka may contain it.
        """
        library = library_of(announced)
        if not of_topic and ELSEWHERE in self.prevents and not (library in FRAMEWORKS and library in self.prevents):
            return self.prevents[ELSEWHERE]
        if library not in self.prevents or not library:
            return self.prevents[""]
        framework = BENEATH.get(library)
        more = f" (a framework on top of it, such as {framework}, has its own way)" if framework else ""
        return f"{self.prevents[library]}{more}"


def library_of(announced: str) -> str:
    """Return the key of a library in `LIBRARIES` by what it announces; empty if it is none of them, or several."""
    found = [name for name, words in LIBRARIES.items() if re.search(words, announced, re.IGNORECASE)]
    frameworks = [name for name in found if name in FRAMEWORKS]
    return (frameworks or found)[0] if len(frameworks or found) == 1 else ""


_AFTER_WORK = {
    "": "commit an offset only when the work up to it is done: no automatic commit while work is open",
    "librdkafka": "enable.auto.offset.store=false and store_offsets (or enable.auto.commit=false and commit) after the "
    "work of a message is done",
    "java": "enable.auto.commit=false, and commitSync after the work of the records of a poll; in Spring, "
    "AckMode.RECORD or BATCH, and no hand-over of records to other threads",
    "franz-go": "kgo.DisableAutoCommit, or kgo.AutoCommitMarks with MarkCommitRecords after the work",
    "sarama": "session.MarkMessage after the work of a message, not before it",
    "kafka-go": "FetchMessage, the work, then CommitMessages; ReadMessage of a group commits before the work",
    "aiokafka": "enable_auto_commit=False, and await consumer.commit() after the work",
    "kafka-python": "enable_auto_commit=False, and consumer.commit() after the work",
    "kafkajs": "await the work in eachMessage; in eachBatch, eachBatchAutoResolve: false and resolveOffset after the "
    "work of each message",
    "platformatic": "autocommit: false, and message.commit() after the work",
    "watermill": "return from the handler after the work, not before it: the message counts as done then",
    "faststream": "another ack_policy than ACK_FIRST, which is the default: AckPolicy.NACK_ON_ERROR or ACK",
}
_ONCE = {
    ELSEWHERE: "make the work idempotent by the id of the input (a unique key with an upsert, a key of idempotence "
    "in a call), or keep the offset in the same transaction of the database and begin there",
    "": "make the work idempotent by the id of the input, or put output and offsets into one transaction",
    "librdkafka": "make the work idempotent by the id of the input, or transactional.id with "
    "send_offsets_to_transaction before commit_transaction, and isolation.level=read_committed for readers",
    "java": "make the work idempotent by the id of the input, or transactions with sendOffsetsToTransaction; in Kafka "
    "Streams, processing.guarantee=exactly_once_v2",
    "franz-go": "make the work idempotent by the id of the input, or kgo.NewGroupTransactSession",
    "sarama": "make the work idempotent by the id of the input, or a transactional producer with AddMessageToTxn",
    "aiokafka": "make the work idempotent by the id of the input, or send_offsets_to_transaction",
    "kafkajs": "make the work idempotent by the id of the input, or transaction.sendOffsets in a transaction",
}
_FAILURES = {
    ELSEWHERE: "let a failure of the work, such as an error of the database or of a call, end the loop or repeat the "
    "message; commit no offset past a message that failed",
    "": "let a failure of the work end the loop or repeat the message; commit no offset past a message that failed",
    "librdkafka": "check the error in the delivery callback, and what flush returns, before the commit",
    "java": "wait for the Future of send (or its callback) before the commit; in Spring, a DefaultErrorHandler with a "
    "recoverer, and no catch around the work",
    "sarama": "return the error from ConsumeClaim, and mark no message that failed; read Errors() of an AsyncProducer",
    "kafka-go": "check the error of WriteMessages before CommitMessages; Async: true hides it",
    "kafkajs": "await producer.send in eachMessage, and let its error pass through",
    "watermill": "return the error from the handler, so that the message is sent to it again; of middleware, the first "
    "is the outer one: PoisonQueue before Retry, or no error reaches Retry",
    "faststream": "ack_policy=AckPolicy.NACK_ON_ERROR, which reads a message again after its handler failed; the "
    "default, ACK_FIRST, does not",
}
_PRODUCER = {
    "": "an idempotent producer, and one send for each input",
    "librdkafka": "enable.idempotence=true; no produce again after a time-out of the application's own",
    "java": "enable.idempotence=true (the default since 3.0); no send again after a TimeoutException",
    "sarama": "Producer.Idempotent with Net.MaxOpenRequests=1",
    "kafka-go": "it has no idempotent producer: make the readers of the output idempotent",
    "kafkajs": "idempotent: true",
    "platformatic": "idempotent: true",
    "aiokafka": "enable_idempotence=True",
}
_MOVED = {
    "": "commit when partitions are revoked, and keep the work between two polls shorter than the limits of the group",
    "librdkafka": "commit in the revoke callback, and max.poll.interval.ms above the longest work between two polls",
    "java": "commitSync in onPartitionsRevoked, and max.poll.interval.ms above the work of max.poll.records",
    "franz-go": "kgo.OnPartitionsRevoked with CommitUncommittedOffsets, and kgo.BlockRebalanceOnPoll",
    "sarama": "leave ConsumeClaim when session.Context() is done, within Group.Rebalance.Timeout",
    "kafkajs": "heartbeat() during long work, and sessionTimeout above the work between two of them",
}
_HANDOVER = {
    "": "close the consumer at SIGTERM so that the group does not wait for the session; session.timeout.ms below the "
    "time that an effect may take",
    "java": "consumer.close() in a shutdown hook (wakeup first), session.timeout.ms below the time that an effect may "
    "take, and group.instance.id for instances that come back",
    "librdkafka": "consumer.close() at SIGTERM, session.timeout.ms below the time that an effect may take, and "
    "group.instance.id for instances that come back",
    "sarama": "ConsumerGroup.Close() at SIGTERM, and Consumer.Group.Session.Timeout below the time that an effect may "
    "take",
    "franz-go": "client.Close() at SIGTERM, and kgo.SessionTimeout below the time that an effect may take",
    "aiokafka": "await consumer.stop() at SIGTERM, and session_timeout_ms below the time that an effect may take",
    "kafkajs": "consumer.disconnect() at SIGTERM, and sessionTimeout below the time that an effect may take",
}
_STILL = {
    "": "an assignor that moves only what it must (cooperative-sticky), or group.protocol=consumer (KIP-848)",
    "java": "CooperativeStickyAssignor, or group.protocol=consumer (KIP-848)",
    "librdkafka": "partition.assignment.strategy=cooperative-sticky, or group.protocol=consumer (KIP-848)",
    "franz-go": "kgo.Balancers(kgo.CooperativeStickyBalancer()), its default",
}
_PACE = {
    "": "more instances (up to the number of partitions), more partitions, or work in parallel by key",
    "java": "more instances (up to the number of partitions), or work in parallel by key; in Spring, concurrency",
    "kafkajs": "partitionsConsumedConcurrently, or more instances (up to the number of partitions)",
}
_POLLS = {
    "": "fewer records in a poll, and each effect when its work is done, not at the end of the poll",
    "java": "max.poll.records below what the work does in the allowed time, and each effect when its work is done",
    "librdkafka": "fewer messages in consume(), and poll() or flush() of the producer after each, with a small "
    "linger.ms",
    "aiokafka": "max_records of getmany below what the work does in the allowed time",
    "kafkajs": "eachMessage in place of eachBatch, or resolveOffset and heartbeat after each message",
}
_READERS = {
    "": "isolation.level=read_committed",
    "sarama": "Consumer.IsolationLevel = sarama.ReadCommitted",
    "franz-go": "kgo.FetchIsolationLevel(kgo.ReadCommitted())",
    "kafka-go": "IsolationLevel: kafka.ReadCommitted",
    "aiokafka": 'isolation_level="read_committed"',
    "kafka-python": 'isolation_level="read_committed"',
    "kafkajs": "readUncommitted: false, its default",
    "platformatic": "isolationLevel: READ_COMMITTED",
}
_CHECKS = {
    "": "a checksum of the library's consumer, if it has one; what changes the bytes is a fault of the run, not of the "
    "application",
    "librdkafka": "check.crcs=true: the default takes records whose checksum does not fit; what changes the bytes is a "
    "fault of the run, not of the application",
    "java": "check.crcs=true (the default), and an application that ends or seeks after the error; what changes the "
    "bytes is a fault of the run, not of the application",
}
_POSITION = {
    "": "begin at the committed offset; auto.offset.reset=earliest for a group that has none",
    "java": "no seek past records that were not worked on; auto.offset.reset=earliest",
    "kafkajs": "fromBeginning: true",
    "kafka-go": "StartOffset: kafka.FirstOffset",
    "sarama": "Consumer.Offsets.Initial = sarama.OffsetOldest",
}

_ACCEPT = {
    "": "share.acknowledgement.mode=explicit (KIP-932), and acknowledge a record when its work is done, not before",
    "librdkafka": "share.acknowledgement.mode=explicit, and acknowledge() after the work of a message; without it, the "
    "next poll accepts all messages of the poll before",
    "java": "share.acknowledgement.mode=explicit, and acknowledge(record) after the work of a record; without it, the "
    "next poll accepts all records of the poll before",
}
_RETURN = {
    "": "release a record if its work failed (AcknowledgeType.RELEASE), so that it is delivered again, or report and "
    "reject it",
}
_REDELIVERED = {
    "": "make the work idempotent by the id of the input (a unique key with an upsert, a key of idempotence in a "
    "call): no transaction contains both the output and the acceptance of a record in a share group",
}

CAUSES: dict[str, Cause] = {
    "commit_first": Cause("offsets are committed before the work is done", _AFTER_WORK),
    "commit_first_or_passed_over": Cause(
        "offsets are committed before the work is done, or a failure of the work is passed over; the wire does not "
        "show which",
        {name: f"{text}; {_FAILURES.get(name, _FAILURES[''])}" for name, text in _AFTER_WORK.items()},
    ),
    "send_failed": Cause("a send failed, and its offset was committed nevertheless", _FAILURES),
    "passed_over": Cause(
        "nothing interrupted the work, so a failure of it is passed over, or the input was left out on purpose",
        _FAILURES,
    ),
    "failed_over": Cause(
        "its offset was committed before a standby took the place of its database, so nothing writes again what the "
        "standby had not got by then",
        {
            "": "let each commit of the database wait for its standby (synchronous_standby_names), or set the offsets "
            "back to before the failover, if the work is idempotent"
        },
    ),
    "not_owner": Cause("an offset is committed past inputs that the committer did not fetch", _AFTER_WORK),
    "skipped": Cause("the application began behind it (auto.offset.reset, a seek, or a commit past it)", _POSITION),
    "own_place": Cause(
        "the application began behind it, at a place that no commit shows: its own, or the end (auto.offset.reset)",
        {
            "": "store the place after the work of a message is done, in one transaction with it if that can be; with "
            "no place yet, begin at the first record (auto.offset.reset=earliest)"
        },
    ),
    "set_past": Cause(
        "a fault of the run set the offsets of its group past it, or deleted them",
        {"": "set offsets of a group only to where its work is done, or before that if the work is idempotent"},
    ),
    "unread": Cause(
        "the application did not come to it before the run ended",
        {"": "find what held its partition: no owner, an error that repeats, or work slower than the traffic"},
    ),
    "unfinished": Cause(
        "the application was not done with it when the run ended",
        {"": "give it more time (settle of the effect), or find what its work waits for"},
    ),
    "left_off": Cause(
        "the application ended by itself, and nothing started it again",
        {"": "let it run until it is asked to end, or let a supervisor start it again (restart: {policy: always})"},
    ),
    "keeps_ending": Cause(
        "the application ended by itself again and again, and did not come past it",
        {
            "": "find the input at which it ends (its log says why), and let it go on behind an input that it cannot "
            "take: report that one, or send it to a dead letter topic"
        },
    ),
    "task_failed": Cause(
        "a task of Kafka Connect failed before, and nothing restarted it",
        {
            "": "take away what made the task fail, which the verdict says, and restart the connector: it goes on at "
            "the offsets that it had stored"
        },
    ),
    "not_idempotent": Cause("the work is not idempotent, or output and offsets need one transaction", _ONCE),
    "left_group": Cause(
        "its instance left the group before it had committed, as it does if the work between two polls takes longer "
        "than max.poll.interval.ms, and the work is not idempotent",
        _MOVED,
    ),
    "moved": Cause("its partition moved before the offset was committed, and the work is not idempotent", _MOVED),
    "went_back": Cause(
        "the position went back behind a committed offset (a seek, a reset, or offsets that were lost)",
        {"": "no seek behind the committed offset; offsets.retention.minutes above the longest pause"},
    ),
    "set_back": Cause(
        "a fault of the run set the offsets of its group back, or deleted them, and the work is not idempotent", _ONCE
    ),
    "repeated": Cause("its instance fetched it again (a retry or a seek), and the work is not idempotent", _ONCE),
    "given_twice": Cause(
        "the library passed on a record that a fault of the run gave twice, and the work is not idempotent", _ONCE
    ),
    "altered": Cause("the application worked with what it got, or could not", _CHECKS),
    "lost_place": Cause(
        "the library, or the application, left records out where a fault of the run gave others twice",
        {"": "a library that leaves out a repeated batch and nothing else; no broker gives a batch twice"},
    ),
    "late_behind": Cause("the application came to it late, because its work is slower than its inputs", _PACE),
    "late_down": Cause("an instance ended, and its partition had no owner until the group noticed", _HANDOVER),
    "late_moved": Cause("its partition moved to another instance meanwhile", _STILL),
    "late_work": Cause("the work took the time, or work on what was fetched before it", _POLLS),
    "miscopied": Cause(
        "the copy is not what was read",
        {
            "": "pass keys, values and headers on as bytes, and keep partitions and their order",
            "java": "converters that pass bytes on, also of headers (header.converter of Kafka Connect), one task for "
            "each partition, and max.in.flight.requests.per.connection=1 or an idempotent producer",
        },
    ),
    "miscalculated": Cause(
        "the work makes another value of it",
        {"": "run the work on this input alone: types of numbers (decimal, not float), rounding, default values"},
    ),
    "state_lost": Cause(
        "what an instance had summed up was kept nowhere else, and its successor began without it",
        {"": "a state that outlives the instance (a database, a changelog topic), read before the first input"},
    ),
    "read_uncommitted": Cause("the application read an input whose transaction was aborted", _READERS),
    "no_input": Cause(
        "the application wrote an effect with an id that no input has",
        {"": "take the id of the effect from its input, unchanged, and write nothing of the application's own there"},
    ),
    "stranger": Cause("something else writes there", {"": "a target that only the applications of the run write to"}),
    "sent_twice": Cause("the application wrote it twice after one fetch", _PRODUCER),
    "called_again": Cause(
        "the application gave up waiting for the answer to a call that was accepted, and did it again",
        {
            "": "a key of idempotence in the call (the id of the input), and a time-out of the client that is longer "
            "than the slowest answer"
        },
    ),
    "done_twice": Cause(
        "the application did it twice after one fetch, as with a call that it repeats, or the query has rows twice",
        {"": "a target that refuses an id again (a unique key, an idempotency key); a query with one row for each"},
    ),
    "accepted_first": Cause("records are accepted before the work is done", _ACCEPT),
    "accepted_first_or_failed": Cause(
        "records are accepted before the work is done, or a failure of the work is passed over; the wire does not show "
        "which",
        {name: f"{text}; {_RETURN['']}" for name, text in _ACCEPT.items()},
    ),
    "accepted_failed": Cause(
        "nothing interrupted the work, so a record was accepted although its work failed, or was left out on purpose",
        _RETURN,
    ),
    "rejected": Cause(
        "a share group gives a rejected record to no member again",
        {"": "release what may work later (AcknowledgeType.RELEASE), and report what is rejected"},
    ),
    "given_up": Cause(
        "it was delivered as often as the group delivers a record (group.share.delivery.count.limit), and nobody "
        "accepted it",
        {
            "": "find what keeps its work from being done, or report the record and reject it before the last "
            "delivery; a higher limit if each delivery ends with an instance"
        },
    ),
    "began_behind": Cause(
        "the share group began behind it",
        {"": "share.auto.offset.reset=earliest of the group (kafka-configs --entity-type groups); the default: latest"},
    ),
    "redelivered": Cause(
        "a share group delivers a record again if its acceptance does not arrive, and the work is not idempotent",
        _REDELIVERED,
    ),
    "released": Cause(
        "its member released it after its work had an effect, and the work is not idempotent", _REDELIVERED
    ),
    "acceptance_lost": Cause(
        "the share group delivered it again after an acceptance without error, and the work is not idempotent",
        {
            "": f"{_REDELIVERED['']}; share.coordinator.state.topic.replication.factor and min.isr as of topics that "
            "must lose nothing"
        },
    ),
    "late_locked": Cause(
        "a member had it and did not end its work, so nobody got it before that member's lock ended",
        {
            "": "close the consumer at SIGTERM, which releases what it has; group.share.record.lock.duration.ms below "
            "the time that an effect may take, and above the longest work"
        },
    ),
}
"""By the key that findings have."""

OF_SHARES: dict[str, str] = {
    "commit_first": "accepted_first",
    "commit_first_or_passed_over": "accepted_first_or_failed",
    "passed_over": "accepted_failed",
    "send_failed": "accepted_failed",
    "skipped": "began_behind",
    "not_idempotent": "redelivered",
    "moved": "redelivered",
    "repeated": "redelivered",
    "left_group": "redelivered",
    "went_back": "acceptance_lost",
    "late_down": "late_locked",
    "late_moved": "late_locked",
}
"""What a cause is called where a share group read the input: it has acceptances in place of offsets."""

STOPPED = frozenset({"unread", "unfinished", "left_off", "keeps_ending", "task_failed"})
"""The causes of what is missing because the application did not go on until the run ended."""


def is_stopped(text: str) -> bool:
    """Return whether a cause, as text, is that the application did not go on."""
    return any(CAUSES[key].text == text for key in STOPPED)
