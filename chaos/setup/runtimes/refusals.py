"""Errors that prove that a send or a commit did not happen. Every other error of a library is `unknown`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """An error that proves a refusal, if all attempts have in common what it needs.

    needs: attempt (there is only one), batch (each carries the same records), settings, limits (of the topic and the
    brokers), rights, timestamps (within the limits of brokers). Nothing if any attempt proves it. why: what the proof
    rests on.
    """

    needs: frozenset[str]
    why: str


Refusals = Mapping[str, Refusal]
"""By the name of the error in the protocol (`org.apache.kafka.common.protocol.Errors`)."""


def refusals(needs: Iterable[str], **why: str) -> dict[str, Refusal]:
    """Return refusals with the same needs, by error."""
    return {name: Refusal(frozenset(needs), text) for name, text in why.items()}


COMMITS = refusals(
    ("attempt",),
    ILLEGAL_GENERATION="the group has moved on to another generation",
    UNKNOWN_MEMBER_ID="the coordinator has removed this member",
    REBALANCE_IN_PROGRESS="commits are refused until the member has joined again",
    FENCED_INSTANCE_ID="another process has replaced this static member",
    FENCED_MEMBER_EPOCH="the member's epoch was fenced (KIP-848)",
    STALE_MEMBER_EPOCH="the member's epoch is not the current one (KIP-848)",
    GROUP_AUTHORIZATION_FAILED="checked before anything is written",
    TOPIC_AUTHORIZATION_FAILED="checked before anything is written",
    OFFSET_METADATA_TOO_LARGE="checked before anything is written",
    INVALID_COMMIT_OFFSET_SIZE="checked before anything is written",
    INVALID_GROUP_ID="checked before anything is written",
    NOT_COORDINATOR="only the coordinator writes offsets",
    COORDINATOR_LOAD_IN_PROGRESS="a coordinator writes nothing while it loads",
    UNKNOWN_TOPIC_OR_PARTITION="the broker has no such partition, so it took no offset",
)
"""Refusals of commits, if it is the only attempt."""
