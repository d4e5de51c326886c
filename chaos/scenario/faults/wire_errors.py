"""The error codes with which a request can be answered, and which of them leave the outcome of the request honest.

A code stands for what a broker did. If the proxy invents it, it must not say more than what happened, because clients,
and the audit after them, believe it. So a request has only the codes after which a client asks again, or gives up
without a claim about earlier attempts. A write that the broker has carried out (`side: response`) has only the codes
that leave open whether it was carried out: all client programs record them as `unknown`.
"""

from __future__ import annotations

CODES = {
    "UNKNOWN_SERVER_ERROR": -1,
    "CORRUPT_MESSAGE": 2,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "REQUEST_TIMED_OUT": 7,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "NOT_ENOUGH_REPLICAS": 19,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
    "ILLEGAL_GENERATION": 22,
    "UNKNOWN_MEMBER_ID": 25,
    "REBALANCE_IN_PROGRESS": 27,
    "CONCURRENT_TRANSACTIONS": 51,
    "KAFKA_STORAGE_ERROR": 56,
    "FENCED_LEADER_EPOCH": 74,
    "UNKNOWN_LEADER_EPOCH": 75,
    "OFFSET_NOT_AVAILABLE": 78,
    "UNSTABLE_OFFSET_COMMIT": 88,
    "UNKNOWN_TOPIC_ID": 100,
}
"""The numbers of the error codes, by their names in Kafka's protocol guide."""

_LEADER = (
    *("UNKNOWN_SERVER_ERROR", "UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER"),
    *("KAFKA_STORAGE_ERROR", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"),
)
_COORDINATOR = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
_MEMBER = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS")
_TRANSACTION = (*_COORDINATOR, "CONCURRENT_TRANSACTIONS")

ERRORS: dict[str, tuple[str, ...]] = {
    "Produce": (
        *_LEADER,
        *("REQUEST_TIMED_OUT", "CORRUPT_MESSAGE", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    ),
    "Fetch": (*_LEADER, "OFFSET_NOT_AVAILABLE", "UNKNOWN_TOPIC_ID"),
    "ListOffsets": (*_LEADER, "OFFSET_NOT_AVAILABLE"),
    "OffsetForLeaderEpoch": _LEADER,
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "JoinGroup": (*_COORDINATOR, "UNKNOWN_MEMBER_ID"),
    "SyncGroup": (*_COORDINATOR, *_MEMBER),
    "Heartbeat": (*_COORDINATOR, *_MEMBER),
    "OffsetFetch": (*_COORDINATOR, "UNSTABLE_OFFSET_COMMIT"),
    "OffsetCommit": (*_COORDINATOR, *_MEMBER, "REQUEST_TIMED_OUT"),
    "InitProducerId": _TRANSACTION,
    "AddPartitionsToTxn": _TRANSACTION,
    "AddOffsetsToTxn": _TRANSACTION,
    "TxnOffsetCommit": _COORDINATOR,
    "EndTxn": _TRANSACTION,
}
"""The error codes of each request that can be answered with one."""

OPEN: dict[str, tuple[str, ...]] = {
    "Produce": (
        *("UNKNOWN_SERVER_ERROR", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "KAFKA_STORAGE_ERROR"),
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    ),
    "OffsetCommit": ("COORDINATOR_NOT_AVAILABLE", "REQUEST_TIMED_OUT"),
    "TxnOffsetCommit": ("COORDINATOR_NOT_AVAILABLE",),
    "EndTxn": ("COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS"),
}
"""The error codes that a write of these kinds can be given although the broker has carried it out."""


def allowed(api: str, side: str) -> tuple[str, ...]:
    """Return the error codes for this side of a kind of request; none if it is never answered with one."""
    return OPEN[api] if side == "response" and api in OPEN else ERRORS.get(api, ())
