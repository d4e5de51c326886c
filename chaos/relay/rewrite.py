"""Rewriting of answers: the proxy's addresses in place of the brokers'."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import ProduceResponse

from chaos.relay.contents import TOPIC_APIS, TopicIds
from chaos.relay.frames import LENGTH_BYTES


@dataclass
class Addresses:
    """The proxy's address for each broker (`fronts`), the hosts of the brokers themselves, and the ids of topics."""

    fronts: dict[int, tuple[str, int]]
    hosts: frozenset[bytes]
    topic_ids: TopicIds = field(default_factory=dict)
    """What answers to Metadata have said about the ids of topics."""


_RESPONSES: dict[int, Any] = {
    ApiKey.Metadata: MetadataResponse,
    ApiKey.FindCoordinator: FindCoordinatorResponse,
    ApiKey.DescribeCluster: DescribeClusterResponse,
    ApiKey.Produce: ProduceResponse,
    ApiKey.ApiVersions: ApiVersionsResponse,
}
_LAST_VERSION = {
    **{api: request.max_version for api, request in TOPIC_APIS.items()},
    **{int(api): response.max_version for api, response in _RESPONSES.items()},
    int(ApiKey.Fetch): 15,
}
_NOT_OFFERED = frozenset({int(ApiKey.ShareFetch), int(ApiKey.ShareAcknowledge)})
_PRODUCE_WITH_ENDPOINTS = 10
_METADATA_WITH_IDS = 10
_UNSUPPORTED_VERSION = 35


def holds_addresses(api: int, version: int) -> bool:
    """Return whether the proxy must rewrite the answer to such a request, and so hold it until it is complete."""
    return api in _RESPONSES and (api != ApiKey.Produce or version >= _PRODUCE_WITH_ENDPOINTS)


def rewritten(frame: bytes, api: int, version: int, addresses: Addresses) -> bytes:
    """Return a complete answer with the proxy's addresses. Addresses of other brokers stay as they are.

    Raises `ValueError` if the answer cannot be decoded.
    """
    response = _RESPONSES[api]
    if api == ApiKey.ApiVersions and _error(frame) == _UNSUPPORTED_VERSION:
        return frame  # it has the layout of version 0, and the client repeats the request with a supported version
    if api == ApiKey.Produce and not any(host in frame for host in addresses.hosts):
        return frame  # nearly always; decoding every answer would cost more than the rest of the proxy
    try:
        answer = response.decode(memoryview(frame)[LENGTH_BYTES:], version=version, header=True)
        if api == ApiKey.ApiVersions:
            _limit_versions(answer)
            return bytes(answer.encode(header=True, framed=True))
        if api == ApiKey.Metadata and version >= _METADATA_WITH_IDS:
            addresses.topic_ids.update((topic.topic_id, topic.name) for topic in answer.topics if topic.name)
        if not _replace(answer, api, version, addresses):
            return frame
        return bytes(answer.encode(header=True, framed=True))
    except Exception as e:  # noqa: BLE001 - the decoder raises errors of many types
        raise ValueError(f"an answer to {ApiKey(api).name} version {version} is not understood: {e!r}") from None


def _error(frame: bytes) -> int:
    """Return the error code of an answer to ApiVersions. It follows the correlation id."""
    return int.from_bytes(frame[8:10], "big", signed=True)


def _limit_versions(answer: Any) -> None:
    """Remove the versions with addresses that the proxy cannot replace."""
    answer.api_keys = [entry for entry in answer.api_keys if entry.api_key not in _NOT_OFFERED]
    for entry in answer.api_keys:
        entry.max_version = min(entry.max_version, _LAST_VERSION.get(entry.api_key, entry.max_version))


def _replace(answer: Any, api: int, version: int, addresses: Addresses) -> bool:
    """Replace the addresses. Returns whether there was one to replace."""
    if api == ApiKey.Produce:
        nodes = answer.node_endpoints or []
    elif api == ApiKey.FindCoordinator:
        nodes = answer.coordinators if version >= 4 else [answer]
    else:
        nodes = answer.brokers
    changed = False
    for node in nodes:
        number = node.broker_id if api == ApiKey.DescribeCluster else node.node_id
        if number in addresses.fronts:
            node.host, node.port = addresses.fronts[number]
            changed = True
    return changed
