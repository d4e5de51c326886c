"""Settings of producers and consumers, from Java properties or YAML, flat or below `producer` and `consumer`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from chaos.errors import UsageError

Scalar = bool | int | float | str

_PRODUCER_KEYS = {
    "acks", "enable.idempotence", "max.in.flight", "max.in.flight.requests.per.connection", "linger.ms", "batch.size",
    "compression.type", "request.timeout.ms", "delivery.timeout.ms", "retries", "retry.backoff.ms",
    "retry.backoff.max.ms", "message.timeout.ms", "message.send.max.retries", "max.request.size",
    "request.required.acks",
}  # fmt: skip
_CONSUMER_KEYS = {
    "auto.offset.reset", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "isolation.level",
    "fetch.min.bytes", "group.protocol", "group.remote.assignor", "fetch.max.wait.ms", "auto.commit.interval.ms",
    "partition.assignment.strategy",
}  # fmt: skip
_LIBRDKAFKA_NAMES = {
    "max.request.size": "message.max.bytes",
    "request.required.acks": "acks",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
}
"""Names of librdkafka where they differ."""
_IGNORED_KEYS = {"enable.auto.commit", "max.poll.records", "transactional.id", "transaction.timeout.ms"}
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_PREFIX = re.compile(r"^(?:spring\.kafka\.(?:properties\.)?)?(?:(producer|consumer)\.(?:properties\.)?)?")


@dataclass
class ClientSettings:
    """Settings by the names of librdkafka. `file` is empty if the user gave none; `ignored` are keys without a use."""

    file: str = ""
    producer: dict[str, Scalar] = field(default_factory=dict)
    consumer: dict[str, Scalar] = field(default_factory=dict)
    auto_commit: bool | None = None
    max_poll_records: int | None = None
    transactional: bool = False
    ignored: list[str] = field(default_factory=list)

    @property
    def loses_by_acks(self) -> bool:
        """Whether a record may be acknowledged that only the leader has."""
        return str(self.producer.get("acks", "")) in ("0", "1")

    @property
    def poll_interval_s(self) -> float:
        """max.poll.interval.ms in seconds; that of a replay if it is unknown."""
        return float(self.consumer.get("max.poll.interval.ms", 6000)) / 1000


def read_client_settings(path: Path | None) -> ClientSettings:
    """Return the settings in a file; empty ones without a file. Raises `UsageError` if it has no known setting."""
    if path is None:
        return ClientSettings()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is not text"
        raise UsageError(f"--clients {path} cannot be read: {reason}") from None
    is_yaml = path.suffix in (".yaml", ".yml")
    settings = ClientSettings(file=path.name)
    for key, value in _yaml_pairs(text, path) if is_yaml else _property_pairs(text, path):
        _add(settings, key, value)
    _reconcile(settings)
    if not (settings.producer or settings.consumer or settings.auto_commit is not None or settings.transactional):
        raise UsageError(f"--clients {path} has no known setting of a producer or consumer, such as acks=all")
    return settings


def _yaml_pairs(text: str, path: Path) -> Iterator[tuple[str, Any]]:
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        position = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"--clients {path}{position} is not valid YAML: {getattr(e, 'problem', e)}") from None
    if not isinstance(data, dict):
        raise UsageError(f"--clients {path} must be a mapping of settings, such as acks: all")
    return _flatten("", data)


def _flatten(prefix: str, data: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flatten(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value


def _property_pairs(text: str, path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(re.sub(r"\\\r?\n\s*", "", text).splitlines(), start=1):
        if not line.strip() or line.lstrip()[0] in "#!":
            continue
        match = re.match(r"\s*([\w.\-]+)\s*[=:\s]\s*(.*?)\s*$", line)
        if match is None:
            raise UsageError(f"--clients {path}:{number} is not a setting; write key=value, such as acks=all")
        yield match[1], match[2]


def _add(settings: ClientSettings, key: str, value: Any) -> None:
    match = _PREFIX.match(key)
    role, name = (match[1], key[match.end() :]) if match else (None, key)
    name = name.replace("-", ".")
    if isinstance(value, list):
        value = ",".join(map(str, value))
    text = "" if value is None else str(value).strip()
    target = _LIBRDKAFKA_NAMES.get(name, name)
    if name == "enable.auto.commit":
        settings.auto_commit = text.lower() == "true"
    elif name == "max.poll.records" and text.isdigit():
        settings.max_poll_records = int(text)
    elif name == "transactional.id":
        settings.transactional = True
    elif name in _PRODUCER_KEYS and role != "consumer":
        settings.producer[target] = scalar(text)
    elif name in _CONSUMER_KEYS and role != "producer":
        settings.consumer[target] = scalar(_assignors(text) if "assignment" in name else text)
    elif name not in _IGNORED_KEYS:
        settings.ignored.append(key)  # without the value, which may be a secret


def _assignors(value: str) -> str:
    names = [name.strip().rpartition(".")[2] for name in value.split(",")]
    return ",".join(_ASSIGNORS.get(name, name) for name in names)


def scalar(text: str) -> Scalar:
    """Return the value of a setting as a boolean or integer if its text is one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"-?\d{1,19}", text) else text


def _reconcile(settings: ClientSettings) -> None:
    """Change settings that Java accepts but librdkafka rejects, and set those that follow from others."""
    p, c = settings.producer, settings.consumer
    if p.get("acks") == -1:
        p["acks"] = "all"
    in_flight = p.get("max.in.flight.requests.per.connection")
    too_many = p.get("enable.idempotence", True) is True and isinstance(in_flight, int) and in_flight > 5
    if settings.loses_by_acks or too_many:
        p["enable.idempotence"] = False
    poll, session = c.get("max.poll.interval.ms"), c.get("session.timeout.ms", 45_000)
    if isinstance(poll, int) and isinstance(session, int) and poll < session and c.get("group.protocol") != "consumer":
        c["session.timeout.ms"] = poll
