"""The users of a cluster: SCRAM credentials in its metadata (KIP-554), and rights, the ACLs of an authorizer."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from kafka.protocol.admin import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from chaos.kafka.admin import AdminRequest, any_broker
from chaos.kafka.client import Kafka
from chaos.kafka.messages import request

ITERATIONS = 4096
_MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}


def set_password(kafka: Kafka, user: str, mechanism: str, password: str) -> None:
    """Set the password of a user for new logins. Only its salted hash is sent. Raises `ClusterError`."""
    number, digest = _MECHANISMS[mechanism]
    salt = secrets.token_bytes(32)
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, ITERATIONS)
    fields = {
        "name": user,
        "mechanism": number,
        "iterations": ITERATIONS,
        "salt": salt,
        "salted_password": salted,
    }
    message = request(AlterUserScramCredentialsRequest[0], deletions=[], upsertions=[fields])
    AdminRequest(f"set the {mechanism} password of {user}", message, any_broker).apply(kafka)


Resource = Literal["topic", "group", "cluster", "transactional_id"]
Operation = Literal["all", "read", "write", "create", "delete", "describe", "describe_configs", "idempotent_write"]

CLUSTER = "kafka-cluster"
"""The name of the resource `cluster`."""
ANY_NAME = "*"

_RESOURCES: dict[Resource, int] = {"topic": 2, "group": 3, "cluster": 4, "transactional_id": 5}
_OPERATIONS: dict[Operation, int] = {
    **{"all": 2, "read": 3, "write": 4, "create": 5, "delete": 6},
    **{"describe": 8, "describe_configs": 10, "idempotent_write": 12},
}
_ANY, _LITERAL, _PREFIXED, _ALLOW, _HOSTS = 1, 3, 4, 3, "*"
_VERSION = 1
"""Of the requests for ACLs: the first one with prefixed names, which Kafka 4 still supports."""
_METADATA = 8


@dataclass(frozen=True)
class Right:
    """One operation on one resource, or on all resources with this prefix (prefixed)."""

    resource: Resource
    name: str
    operation: Operation
    prefixed: bool = False


def rights(resource: Resource, name: str, *operations: Operation, prefixed: bool = False) -> list[Right]:
    """Return several rights to a resource."""
    return [Right(resource, name, operation, prefixed) for operation in operations]


def grant(kafka: Kafka, principal: str, granted: Iterable[Right]) -> None:
    """Give a principal these rights; its other rights stay. Raises `ClusterError`."""
    creations = [
        {
            "resource_type": _RESOURCES[right.resource],
            "resource_name": right.name,
            "resource_pattern_type": _PREFIXED if right.prefixed else _LITERAL,
            "principal": principal,
            "host": _HOSTS,
            "operation": _OPERATIONS[right.operation],
            "permission_type": _ALLOW,
        }
        for right in granted
    ]
    message = request(CreateAclsRequest[_VERSION], creations=creations)
    AdminRequest(f"give rights to {principal}", message, any_broker).apply(kafka)


def withdraw(kafka: Kafka, principal: str, withdrawn: Iterable[Right]) -> None:
    """Take these rights from a principal; one that it does not have counts as taken. Raises `ClusterError`."""
    filters = [
        {
            "resource_type_filter": _RESOURCES[right.resource],
            "resource_name_filter": right.name,
            "pattern_type_filter": _PREFIXED if right.prefixed else _LITERAL,
            "principal_filter": principal,
            "host_filter": None,
            "operation": _OPERATIONS[right.operation],
            "permission_type": _ANY,
        }
        for right in withdrawn
    ]
    message = request(DeleteAclsRequest[_VERSION], filters=filters)
    AdminRequest(f"take rights from {principal}", message, any_broker).apply(kafka)


def withdraw_all(kafka: Kafka, principal: str) -> None:
    """Take all rights from a principal. Raises `ClusterError`."""
    message = request(DeleteAclsRequest[_VERSION], filters=[_all_of(principal, _ANY)])
    AdminRequest(f"take all rights from {principal}", message, any_broker).apply(kafka)


def rights_at(kafka: Kafka, broker: int, principal: str) -> set[Right] | None:
    """Return the rights of a principal as one broker knows them; None without an answer.

    Brokers learn about a change one after the other.
    """
    answer = kafka.ask(broker, request(DescribeAclsRequest[_VERSION], **_all_of(principal, _ALLOW)))
    if answer is None or answer.error_code:
        return None
    resources = {number: name for name, number in _RESOURCES.items()}
    operations = {number: name for name, number in _OPERATIONS.items()}
    return {
        Right(
            resources[found.resource_type],
            found.resource_name,
            operations[acl.operation],
            found.pattern_type == _PREFIXED,
        )
        for found in answer.resources
        for acl in found.acls
        if found.resource_type in resources and acl.operation in operations
    }


def _all_of(principal: str, permission: int) -> dict[str, Any]:
    """Return the filter for all ACLs of a principal with this permission."""
    return {
        **{"resource_type_filter": _ANY, "resource_name_filter": None, "pattern_type_filter": _ANY},
        **{"principal_filter": principal, "host_filter": None, "operation": _ANY, "permission_type": permission},
    }


def allowed(kafka: Kafka, broker: int, topic: str) -> set[Operation] | None:
    """Return what a broker allows the user of this connection to do with a topic; None without an answer."""
    fields = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    details = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": True}
    answer = kafka.ask(broker, request(MetadataRequest[_METADATA], **fields, **details))
    if answer is None or not answer.topics:
        return None
    found = answer.topics[0].authorized_operations or ()  # none also if the user may not even describe the topic
    return {name for name, number in _OPERATIONS.items() if number in found}
