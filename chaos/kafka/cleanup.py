"""Leaving a cluster as it was: the topics and groups of a run are removed from it.

It needs no more than an address, so that any process can do it (the platform, a DAG's teardown, the reaper, `down`).
The requests are made by `chaos.kafka.client`: librdkafka's Admin API may end the process where a coordinator moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka.protocol.admin import DeleteGroupsRequest, DeleteTopicsRequest, ListGroupsRequest
from kafka.protocol.consumer import LeaveGroupRequest

from chaos.errors import ClusterError
from chaos.kafka.access import Access
from chaos.kafka.client import NO_ERROR, Kafka

DELETE_TOPICS, LIST_GROUPS, DELETE_GROUPS, LEAVE_GROUP = 3, 2, 1, 3
"""Version of each request."""
GONE_S = 60.0
"""For all of it: longer than the session (45 s) of a member that cannot be asked to leave."""
ANSWER_S = 10.0
AGAIN_S = 0.2

_UNKNOWN_TOPIC, _NON_EMPTY_GROUP, _GROUP_NOT_FOUND = 3, 68, 69
_NEVER = {29: "no right to delete it", 30: "no right to delete it", 73: "the brokers have delete.topic.enable=false"}
_Leaving = LeaveGroupRequest.MemberIdentity


Wanted = Callable[[str], bool]
"""Whether a name is that of something to be removed."""


def remove(bootstrap: str, wanted: Wanted, access: Access | None) -> None:
    """Remove all topics and groups whose names are wanted. Raises `ClusterError` if some are left."""
    kafka = Kafka(bootstrap, ANSWER_S, access)
    deadline = time.monotonic() + GONE_S
    try:
        _until_none("groups", lambda: _groups(kafka, wanted), lambda names: _delete_groups(kafka, names), deadline)
        _until_none("topics", lambda: _topics(kafka, wanted), lambda names: _delete_topics(kafka, names), deadline)
    finally:
        kafka.close()


def _until_none(
    what: str, left: Callable[[], list[str] | None], delete: Callable[[list[str]], str], deadline: float
) -> None:
    """Look and delete until a look shows none."""
    why = "the cluster does not answer"
    while True:
        names = left()
        if names is not None and not names:
            return
        if time.monotonic() > deadline:
            some = f" {', '.join(names[:3])}" if names else ""
            raise ClusterError(f"{what} of the run are left on the cluster{some}: {why}")
        if names:
            why = delete(names) or why
        time.sleep(AGAIN_S)


def _topics(kafka: Kafka, wanted: Wanted) -> list[str] | None:
    metadata = kafka.metadata()
    if metadata is None:
        return None
    topics = {partition.topic for partition in metadata.partitions}
    return sorted(t for t in topics if wanted(t))


def _delete_topics(kafka: Kafka, names: list[str]) -> str:
    """Ask for it once; why it did not work, where that is known."""
    metadata = kafka.metadata()
    if metadata is None:
        return ""
    request = DeleteTopicsRequest[DELETE_TOPICS](topic_names=names, timeout_ms=int(ANSWER_S * 1000))
    answer = kafka.ask(metadata.controller, request)
    codes = [t.error_code for t in answer.responses] if answer else []
    return _why(codes, (NO_ERROR, _UNKNOWN_TOPIC))


def _groups(kafka: Kafka, wanted: Wanted) -> list[str] | None:
    """The groups that every broker knows; None as long as one does not tell."""
    metadata = kafka.metadata()
    if metadata is None:
        return None
    found: set[str] = set()
    for broker in metadata.brokers:
        answer = kafka.ask(broker, ListGroupsRequest[LIST_GROUPS]())
        if answer is None or answer.error_code != NO_ERROR:
            return None
        found.update(g.group_id for g in answer.groups if wanted(g.group_id))
    return sorted(found)


def _delete_groups(kafka: Kafka, names: list[str]) -> str:
    codes = []
    for name in names:
        coordinator = kafka.coordinator(name)
        if coordinator is None:
            continue
        answer = kafka.ask(coordinator, DeleteGroupsRequest[DELETE_GROUPS](groups_names=[name]))
        code = answer.results[0].error_code if answer else NO_ERROR
        if code == _NON_EMPTY_GROUP:
            _send_away(kafka, coordinator, name)
        codes.append(code)
    return _why(codes, (NO_ERROR, _GROUP_NOT_FOUND))


def _send_away(kafka: Kafka, coordinator: int, group: str) -> None:
    """Members that were killed are members until their session has run out, unless somebody says that they left."""
    state = kafka.group(group)
    members = [_Leaving(member_id=m.member_id, group_instance_id=None) for m in state.members] if state else []
    if members:
        kafka.ask(coordinator, LeaveGroupRequest[LEAVE_GROUP](group_id=group, members=members))


def _why(codes: list[int], fine: tuple[int, ...]) -> str:
    """What keeps something from being deleted. Raises `ClusterError` if waiting would not help."""
    for code in codes:
        if code in _NEVER:
            raise ClusterError(f"what the run made is left on the cluster: {_NEVER[code]}")
    wrong = [code for code in codes if code not in fine]
    if _NON_EMPTY_GROUP in wrong:
        return "a group has members still"
    return f"the brokers answer with error {wrong[0]}" if wrong else ""
