"""Removal of a run's topics and groups from a cluster that outlives the run.

It needs only the address of the cluster, so that every process can do it: the platform, a DAG's teardown, the reaper
and `down`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka.errors import for_code
from kafka.protocol.admin import ListGroupsRequest

from chaos.errors import ClusterError
from chaos.kafka import admin
from chaos.kafka.client import Kafka
from chaos.kafka.security import Access

TIMEOUT_S = 150.0
"""Limit for the whole removal. It covers the election of a coordinator after brokers came back (more than 60 s on a
loaded machine), and then the session (45 s) of a member that cannot be removed from its group."""
ANSWER_S = 10.0
RETRY_S = 0.2

_NON_EMPTY_GROUP = 68
_NOT_ALLOWED = "no right to delete it"
_FINAL = {29: _NOT_ALLOWED, 30: _NOT_ALLOWED, 73: "the brokers have delete.topic.enable=false"}
"""Error codes that no repetition changes."""


def remove(bootstrap: str, selected: Callable[[str], bool], access: Access | None) -> None:
    """Remove all groups and topics with a selected name. Raises `ClusterError` if any are left."""
    kafka = Kafka(bootstrap, ANSWER_S, access)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        for kind, listed, delete in (("groups", list_groups, _delete_groups), ("topics", list_topics, _delete_topics)):
            reason = "the cluster does not answer"
            while (names := listed(kafka, selected)) is None or names:
                if time.monotonic() > deadline:
                    some = f" {', '.join(names[:3])}" if names else ""
                    raise ClusterError(f"{kind} of the run are left on the cluster{some}: {reason}")
                if names and (errors := delete(kafka, names)):
                    reason = _reason(errors)
                time.sleep(RETRY_S)
    finally:
        kafka.close()


def list_topics(kafka: Kafka, selected: Callable[[str], bool]) -> list[str] | None:
    """Return the topics with a selected name; None if no broker answers."""
    metadata = kafka.metadata()
    return sorted({p.topic for p in metadata.partitions if selected(p.topic)}) if metadata else None


def _delete_topics(kafka: Kafka, names: list[str]) -> admin.Errors:
    return admin.delete_topics(names).attempt(kafka) or []


def list_groups(kafka: Kafka, selected: Callable[[str], bool]) -> list[str] | None:
    """Return the groups of all brokers; None if a broker does not answer."""
    metadata = kafka.metadata()
    if metadata is None:
        return None
    groups: set[str] = set()
    for broker in metadata.brokers:
        answer = kafka.ask(broker, ListGroupsRequest[2]())
        if answer is None or answer.error_code:
            return None
        groups.update(g.group_id for g in answer.groups if selected(g.group_id))
    return sorted(groups)


def _delete_groups(kafka: Kafka, names: list[str]) -> admin.Errors:
    errors = []
    for name in names:
        refused = admin.delete_group(name).attempt(kafka) or []
        if any(code == _NON_EMPTY_GROUP for _, code in refused):
            _remove_members(kafka, name)
        errors += refused
    return errors


def _remove_members(kafka: Kafka, group: str) -> None:
    """Make all members leave. Without it, killed members stay until their sessions end."""
    if state := kafka.group(group):
        admin.remove_members(kafka, group, [m.member_id for m in state.members])


def _reason(errors: admin.Errors) -> str:
    """Return the reason why something cannot be deleted yet. Raises `ClusterError` if no repetition helps."""
    for _, code in errors:
        if code in _FINAL:
            raise ClusterError(f"what the run made is left on the cluster: {_FINAL[code]}")
    if any(code == _NON_EMPTY_GROUP for _, code in errors):
        return "a group still has members"
    name, code = errors[0]
    return f"the brokers answer {for_code(code).__name__} for {name}"
