"""What a broker supports: the versions of each API, and the levels of the cluster's features (KIP-584, KIP-1022)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import UpdateFeaturesRequest
from kafka.protocol.metadata import ApiVersionsRequest

from chaos.errors import ClusterError, WaitTimeout
from chaos.kafka import messages
from chaos.kafka.brokers import Brokers
from chaos.kafka.connection import BrokerConnection
from chaos.wait import wait_until

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
"""The feature that makes the quorum dynamic (KIP-853). It is not raised with a release."""

API_VERSIONS = 18
_WITH_FEATURES, _WITH_ZERO_LEVELS = 3, 4
"""Versions of ApiVersions: the first one with features, and the first one with features whose lowest level is 0."""
_DEFAULT_SINCE = {"eligible.leader.replicas.version": 26, "share.version": 28}
"""The metadata.version from which a new cluster has a feature that earlier releases support, too: 4.1-IV0, 4.2-IV0."""
_UPGRADE, _SAFE_DOWNGRADE = 1, 2
_NOT_CONTROLLER, _REQUEST_TIMED_OUT = 41, 7
_TIMEOUT_S, _ANSWER_S, _SHORT_S = 30.0, 12.0, 2.0


@dataclass(frozen=True)
class Support:
    """The answer of one node: versions by API key, levels by feature, and the levels that are final."""

    apis: Mapping[int, tuple[int, int]]
    levels: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]

    def same_software(self, other: Support) -> bool:
        """Return whether both nodes may run the same release."""
        return self.apis == other.apis and self.levels == other.levels


def support(node: BrokerConnection) -> Support | None:
    """Ask a broker or a controller what it supports; None without an answer."""
    try:
        return _ask(node)
    except OSError:
        return None
    finally:
        node.close()


def _ask(node: BrokerConnection) -> Support:
    plain = node.ask(messages.versions(), _SHORT_S)
    apis = {key.api_key: (key.min_version, key.max_version) for key in plain.api_keys}
    version = min(apis[API_VERSIONS][1], _WITH_ZERO_LEVELS)
    if version < _WITH_FEATURES:
        return Support(apis, {}, {})
    name = {"client_software_name": "aftershock", "client_software_version": "1"}
    answer = node.ask(ApiVersionsRequest[version](**name), _SHORT_S)
    levels = {f.name: (f.min_version, f.max_version) for f in answer.supported_features or ()}
    finalized = {f.name: f.max_version_level for f in answer.finalized_features or ()}
    return Support(apis, levels, finalized)


def release_levels(supports: Collection[Support]) -> dict[str, int]:
    """Return the levels that a new cluster of these brokers would have, without the level of the quorum.

    `kafka-features.sh upgrade --release-version` also raises that one, which makes a static quorum dynamic
    (KAFKA-21426).
    """
    names = set.intersection(*(set(s.levels) for s in supports)) - {KRAFT_VERSION}
    levels = {name: min(s.levels[name][1] for s in supports) for name in sorted(names)}
    return {n: level for n, level in levels.items() if _DEFAULT_SINCE.get(n, 0) <= levels.get(METADATA_VERSION, 0)}


_LINES = (
    *((30, "4.3"), (28, "4.2"), (26, "4.1"), (22, "4.0"), (21, "3.9"), (20, "3.8"), (15, "3.7"), (12, "3.6")),
    *((9, "3.5"), (8, "3.4"), (4, "3.3")),
)
"""The first metadata.version of each line of Kafka in KRaft mode, from `MetadataVersion.java` in Apache Kafka."""


def line_of(support: Support) -> str | None:
    """Return the line of releases, such as 3.9, by the highest metadata.version that a broker supports.

    None for a broker in ZooKeeper mode, which has no such feature. A line later than all known ones is the last one.
    """
    _, highest = support.levels.get(METADATA_VERSION, (0, 0))
    return next((line for first, line in _LINES if highest >= first), None)


def update(kafka: Brokers, levels: Mapping[str, int], current: Mapping[str, int]) -> None:
    """Finalize these levels, in one request. A level below the current one is a downgrade that loses nothing.

    Raises `ClusterError` with Kafka's reason if the controller refuses.
    """
    changes = [
        {
            "feature": name,
            "max_version_level": level,
            "upgrade_type": _UPGRADE if level > current.get(name, 0) else _SAFE_DOWNGRADE,
        }
        for name, level in levels.items()
    ]
    message = messages.request(
        UpdateFeaturesRequest[1], timeout_ms=10_000, feature_updates=changes, validate_only=False
    )
    wanted = ", ".join(f"{name} {level}" for name, level in levels.items())
    state = "no broker answers"

    def done() -> bool:
        nonlocal state
        metadata = kafka.metadata()
        answer = kafka.ask(metadata.controller, message, _ANSWER_S) if metadata else None
        if answer is None:
            return False
        errors = _errors(answer)
        state = "; ".join(f"{for_code(code).__name__}: {reason}" for code, reason in errors)
        if any(code not in (_NOT_CONTROLLER, _REQUEST_TIMED_OUT) for code, _ in errors):
            raise ClusterError(f"the controller refused to finalize {wanted}: {state}")
        return not errors

    try:
        wait_until(done, _TIMEOUT_S, "", every_s=0.2)
    except WaitTimeout:
        raise ClusterError(f"the controller did not finalize {wanted} within {_TIMEOUT_S:g} s: {state}") from None


def _errors(answer: Any) -> list[tuple[int, str]]:
    """Return the error codes with their reasons, each once."""
    parts = [answer, *(answer.results or ())]
    return list(
        dict.fromkeys((part.error_code, part.error_message or "no reason given") for part in parts if part.error_code)
    )
