"""Rewriting of answers: the proxy's addresses in place of the brokers'."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import ProduceResponse

from chaos.kafka.schemas import ShareAcknowledgeResponse, ShareFetchResponse
from chaos.relay.contents import TOPIC_APIS, TopicIds, last_version, layout
from chaos.relay.frames import LENGTH_BYTES


@dataclass
class Addresses:
    """The proxy's address for each broker (`fronts`), the hosts of the brokers themselves, and the ids of topics."""

    fronts: Mapping[int, tuple[str, int]]
    hosts: Set[bytes]
    topic_ids: TopicIds = field(default_factory=dict)
    """What answers to Metadata have said about the ids of topics."""


_RESPONSES: dict[int, Any] = {
    ApiKey.Metadata: MetadataResponse,
    ApiKey.FindCoordinator: FindCoordinatorResponse,
    ApiKey.DescribeCluster: DescribeClusterResponse,
    ApiKey.Produce: ProduceResponse,
    ApiKey.Fetch: FetchResponse,
    ApiKey.ShareFetch: ShareFetchResponse,
    ApiKey.ShareAcknowledge: ShareAcknowledgeResponse,
    ApiKey.ApiVersions: ApiVersionsResponse,
}
_LAST_VERSION = {api: last_version(api, kind) for api, kind in {**TOPIC_APIS, **_RESPONSES}.items()}
_WITH_ENDPOINTS: dict[int, int] = {
    ApiKey.Produce: 10,
    ApiKey.Fetch: 16,
    ApiKey.ShareFetch: 0,
    ApiKey.ShareAcknowledge: 0,
}
"""The first versions with the addresses of new leaders (KIP-951), at the end of the answer."""
_ENDPOINT_BYTES = 2**16
"""Bytes at the end of an answer that certainly hold all of these addresses."""
_METADATA_WITH_IDS = 10
_UNSUPPORTED_VERSION = 35


def holds_addresses(api: int, version: int) -> bool:
    """Return whether the proxy must rewrite the answer to such a request, and so hold it until it is complete."""
    return api in _RESPONSES and version >= _WITH_ENDPOINTS.get(api, 0)


def rewritten(frame: bytes, api: int, version: int, addresses: Addresses) -> bytes:
    """Return a complete answer with the proxy's addresses. Addresses of other brokers stay as they are.

    Raises `ValueError` if the answer cannot be decoded.
    """
    response = _RESPONSES[api]
    if api == ApiKey.ApiVersions and _error(frame) == _UNSUPPORTED_VERSION:
        return frame  # it has the layout of version 0, and the client repeats the request with a supported version
    if api in _WITH_ENDPOINTS and all(frame.find(host, -_ENDPOINT_BYTES) < 0 for host in addresses.hosts):
        return frame  # nearly always; decoding every answer would cost more than the rest of the proxy
    try:
        answer = response.decode(memoryview(frame)[LENGTH_BYTES:], version=layout(api, version), header=True)
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
    """Remove the versions, newer than Kafka 4.4, that the proxy cannot decode."""
    for entry in answer.api_keys:
        entry.max_version = min(entry.max_version, _LAST_VERSION.get(entry.api_key, entry.max_version))


def _replace(answer: Any, api: int, version: int, addresses: Addresses) -> bool:
    """Replace the addresses. Returns whether there was one to replace."""
    if api in _WITH_ENDPOINTS:
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
