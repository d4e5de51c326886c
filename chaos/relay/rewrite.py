"""The brokers' addresses in their answers, replaced by those at which the proxy stands for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import ProduceResponse

from chaos.relay.frames import LENGTH_BYTES


@dataclass
class Addresses:
    """By broker, where the proxy stands for it; and the hosts of the brokers themselves."""

    fronts: dict[int, tuple[str, int]]
    hosts: frozenset[bytes]


_RESPONSES: dict[int, Any] = {
    ApiKey.Metadata: MetadataResponse,
    ApiKey.FindCoordinator: FindCoordinatorResponse,
    ApiKey.DescribeCluster: DescribeClusterResponse,
    ApiKey.Produce: ProduceResponse,
    ApiKey.ApiVersions: ApiVersionsResponse,
}
_LAST_VERSION = {**{int(api): response.max_version for api, response in _RESPONSES.items()}, int(ApiKey.Fetch): 15}
_NOT_OFFERED = frozenset({int(ApiKey.ShareFetch), int(ApiKey.ShareAcknowledge)})
_PRODUCE_WITH_ENDPOINTS = 10
_UNSUPPORTED_VERSION = 35


def holds_addresses(api: int, version: int) -> bool:
    """Whether the answer to such a request has to be rewritten, and so to be held until it is whole."""
    return api in _RESPONSES and (api != ApiKey.Produce or version >= _PRODUCE_WITH_ENDPOINTS)


def rewritten(frame: bytes, api: int, version: int, addresses: Addresses) -> bytes:
    """A whole answer with other addresses; those of brokers that nobody stands for are kept.

    Raises `ValueError` where it is not understood.
    """
    response = _RESPONSES[api]
    if api == ApiKey.ApiVersions and _error(frame) == _UNSUPPORTED_VERSION:
        return frame  # has the layout of version 0, and makes the client ask again with a version that is known
    if api == ApiKey.Produce and not any(host in frame for host in addresses.hosts):
        return frame  # as nearly always; decoding each would cost more than all else here
    try:
        answer = response.decode(memoryview(frame)[LENGTH_BYTES:], version=version, header=True)
        if api == ApiKey.ApiVersions:
            _hold_back(answer)
        elif not _replace(answer, api, version, addresses):
            return frame
        return bytes(answer.encode(header=True, framed=True))
    except Exception as e:  # noqa: BLE001 - whatever the decoder stumbles over
        raise ValueError(f"an answer to {ApiKey(api).name} version {version} is not understood: {e!r}") from None


def _error(frame: bytes) -> int:
    """The error code of an answer to ApiVersions, which follows the correlation id."""
    return int.from_bytes(frame[8:10], "big", signed=True)


def _hold_back(answer: Any) -> None:
    """Offer no version whose addresses could not be replaced."""
    answer.api_keys = [entry for entry in answer.api_keys if entry.api_key not in _NOT_OFFERED]
    for entry in answer.api_keys:
        entry.max_version = min(entry.max_version, _LAST_VERSION.get(entry.api_key, entry.max_version))


def _replace(answer: Any, api: int, version: int, addresses: Addresses) -> bool:
    """Put the new addresses in; whether there was one to replace."""
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
