"""Names of error codes, for programs of libraries that give only the code or a text."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from chaos.setup.hints import nearest

ERROR_CODES = {
    **dict(enumerate(("OFFSET_OUT_OF_RANGE", "CORRUPT_MESSAGE", "UNKNOWN_TOPIC_OR_PARTITION"), 1)),
    **dict(enumerate(("LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"), 5)),
    **dict(enumerate(("MESSAGE_TOO_LARGE", "STALE_CONTROLLER_EPOCH", "OFFSET_METADATA_TOO_LARGE"), 10)),
    **dict(enumerate(("NETWORK_EXCEPTION", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"), 13)),
    **dict(enumerate(("NOT_COORDINATOR", "INVALID_TOPIC_EXCEPTION", "RECORD_LIST_TOO_LARGE"), 16)),
    **dict(enumerate(("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "INVALID_REQUIRED_ACKS"), 19)),
    **dict(enumerate(("ILLEGAL_GENERATION", "INCONSISTENT_GROUP_PROTOCOL", "INVALID_GROUP_ID"), 22)),
    **dict(enumerate(("UNKNOWN_MEMBER_ID", "INVALID_SESSION_TIMEOUT", "REBALANCE_IN_PROGRESS"), 25)),
    **dict(enumerate(("INVALID_COMMIT_OFFSET_SIZE", "TOPIC_AUTHORIZATION_FAILED"), 28)),
    **dict(enumerate(("GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "INVALID_TIMESTAMP"), 30)),
    **dict(enumerate(("POLICY_VIOLATION", "OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER"), 44)),
    **dict(enumerate(("INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"), 47)),
    **dict(enumerate(("INVALID_TRANSACTION_TIMEOUT", "CONCURRENT_TRANSACTIONS"), 50)),
    **dict(enumerate(("TRANSACTION_COORDINATOR_FENCED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"), 52)),
    **{-1: "UNKNOWN_SERVER_ERROR", 35: "UNSUPPORTED_VERSION", 56: "KAFKA_STORAGE_ERROR"},
    **{58: "SASL_AUTHENTICATION_FAILED", 59: "UNKNOWN_PRODUCER_ID"},
    **dict(enumerate(("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "UNSUPPORTED_COMPRESSION_TYPE"), 74)),
    **{79: "MEMBER_ID_REQUIRED", 81: "GROUP_MAX_SIZE_REACHED", 82: "FENCED_INSTANCE_ID", 87: "INVALID_RECORD"},
    **{88: "UNSTABLE_OFFSET_COMMIT", 89: "THROTTLING_QUOTA_EXCEEDED", 90: "PRODUCER_FENCED"},
    **{69: "GROUP_ID_NOT_FOUND", 78: "OFFSET_NOT_AVAILABLE", 100: "UNKNOWN_TOPIC_ID", 110: "FENCED_MEMBER_EPOCH"},
    **{112: "UNSUPPORTED_ASSIGNOR", 113: "STALE_MEMBER_EPOCH", 120: "TRANSACTION_ABORTABLE"},
}
"""Names of the error codes in the protocol (`org.apache.kafka.common.protocol.Errors`)."""


def _known(name: str) -> str:
    if name not in ERROR_CODES.values():
        raise ValueError(f"{name!r} is no error of the protocol{nearest(name, sorted(ERROR_CODES.values()))}")
    return name


ErrorName = Annotated[str, AfterValidator(_known)]
"""The name of an error in the protocol, such as NOT_LEADER_OR_FOLLOWER."""
