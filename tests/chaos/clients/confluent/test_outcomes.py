"""Outcomes of sends and commits by error."""

from confluent_kafka import KafkaError

from chaos.clients.confluent.outcomes import COMMITS, SENDS, Kept, commit_outcome, kept_by, send_error, send_outcome

NOTHING, ATTEMPT = Kept(), Kept({"attempt"})
STEADY = Kept({"settings", "limits", "rights"})
ALL = STEADY | {"batch"}


def test_a_send_is_unknown_after_a_time_out_or_a_lost_connection() -> None:
    for code in (
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._TRANSPORT,
        KafkaError._PURGE_INFLIGHT,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.UNKNOWN,
        KafkaError._FATAL,
    ):
        assert send_outcome(KafkaError(code), ATTEMPT, 0) == "unknown"
        assert send_outcome(KafkaError(code), ALL, 0) == "unknown"


def test_a_refused_send_failed_only_if_there_was_no_earlier_attempt() -> None:
    refused = KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)
    assert send_outcome(refused, ATTEMPT, 0) == "fail"
    assert send_outcome(refused, ALL, 0) == "unknown"


def test_a_record_that_no_broker_accepts_was_never_appended_unless_the_topic_changed() -> None:
    refused = KafkaError(KafkaError.INVALID_RECORD)
    assert send_outcome(refused, Kept({"settings"}), 0) == "fail"
    assert send_outcome(refused, Kept({"batch", "limits", "rights"}), 0) == "unknown"


def test_a_timestamp_may_have_been_in_time_at_an_earlier_attempt() -> None:
    assert send_outcome(KafkaError(KafkaError.INVALID_TIMESTAMP), ALL, 0) == "unknown"
    assert send_outcome(KafkaError(KafkaError.INVALID_TIMESTAMP), ATTEMPT, 0) == "fail"
    assert send_outcome(KafkaError(KafkaError.INVALID_TIMESTAMP), Kept({"timestamps"}), 0) == "fail"


def test_a_timestamp_of_one_record_of_a_batch_is_named_as_such() -> None:
    """As librdkafka reports it if a broker refused several records of a batch."""
    text = "Timestamp 9 of message with offset 4 is out of range. The timestamp should be within [1, 2]"
    refused = KafkaError(KafkaError.INVALID_RECORD, text)
    assert send_error(refused) == "INVALID_TIMESTAMP"
    assert send_outcome(refused, Kept({"timestamps"}), 0) == "fail"
    assert send_outcome(refused, Kept({"settings"}), 0) == "unknown"
    assert (
        send_error(KafkaError(KafkaError.INVALID_RECORD, "One or more records have been rejected")) == "INVALID_RECORD"
    )


def test_a_refused_commit_failed_if_the_answer_came_before_a_retry_was_possible() -> None:
    refused = KafkaError(KafkaError.ILLEGAL_GENERATION)
    assert commit_outcome(refused, took_s=0.01, backoff_s=0.1) == "fail"
    assert commit_outcome(refused, took_s=0.09, backoff_s=0.1) == "unknown"
    assert commit_outcome(refused, took_s=None, backoff_s=0.1) == "unknown"


def test_a_commit_without_an_answer_is_unknown() -> None:
    for code in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._WAIT_COORD, KafkaError.REQUEST_TIMED_OUT):
        assert commit_outcome(KafkaError(code), took_s=0.01, backoff_s=0.1) == "unknown"
    assert commit_outcome(None, took_s=None, backoff_s=0.1) == "ok"


def test_a_batch_that_is_too_large_failed_if_every_attempt_was_the_same_batch() -> None:
    refused = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    assert send_outcome(refused, ATTEMPT, 0) == "fail"
    assert send_outcome(refused, Kept({"batch", "limits"}), 0) == "fail"
    assert send_outcome(refused, STEADY, 0) == "unknown"
    assert send_outcome(refused, ALL - {"limits"}, 0) == "unknown"


def test_a_client_without_the_right_appended_nothing_unless_its_rights_changed() -> None:
    for code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
        assert send_outcome(KafkaError(code), Kept({"rights"}), 0) == "fail"
        assert send_outcome(KafkaError(code), ALL - {"rights"}, 0) == "unknown"


def test_a_record_that_never_had_a_partition_was_in_no_request() -> None:
    for code in (KafkaError._UNKNOWN_TOPIC, KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_QUEUE):
        assert send_outcome(KafkaError(code), NOTHING, -1) == "fail"
        assert send_outcome(KafkaError(code), NOTHING, 0) == "unknown"


def test_only_a_producer_that_never_retries_makes_single_attempts() -> None:
    assert kept_by({"retries": 0}, transactional=False, steady=[]) == ATTEMPT
    assert kept_by({"message.send.max.retries": "0"}, transactional=False, steady=["rights"]) == {"attempt", "rights"}
    assert kept_by({}, transactional=False, steady=[]) == NOTHING
    assert kept_by({"retries": 1, "acks": 0}, transactional=False, steady=[]) == NOTHING


def test_only_an_idempotent_producer_repeats_the_same_batch() -> None:
    assert kept_by({"enable.idempotence": True}, transactional=False, steady=["limits"]) == {"batch", "limits"}
    assert kept_by({}, transactional=True, steady=[]) == {"batch"}
    assert kept_by({"enable.idempotence": "false"}, transactional=False, steady=[]) == NOTHING


def test_each_entry_of_the_tables_has_a_reason() -> None:
    assert all(reason for _, reason in SENDS.values())
    assert all(COMMITS.values())
