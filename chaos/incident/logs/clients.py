"""What the settings of producers and consumers say: Java properties, or YAML, flat or by `producer` and `consumer`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from chaos.errors import UsageError

Scalar = bool | int | float | str

# by the names of Java, with those of librdkafka where they differ
PRODUCER = {
    **{k: k for k in ("acks", "enable.idempotence", "max.in.flight.requests.per.connection", "linger.ms")},
    **{k: k for k in ("batch.size", "compression.type", "request.timeout.ms", "delivery.timeout.ms", "retries")},
    **{k: k for k in ("retry.backoff.ms", "retry.backoff.max.ms", "message.timeout.ms", "message.send.max.retries")},
    **{"max.request.size": "message.max.bytes", "request.required.acks": "acks", "max.in.flight": "max.in.flight"},
}
CONSUMER = {
    **{k: k for k in ("auto.offset.reset", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms")},
    **{k: k for k in ("isolation.level", "fetch.min.bytes", "group.protocol", "group.remote.assignor")},
    **{"fetch.max.wait.ms": "fetch.wait.max.ms", "auto.commit.interval.ms": "auto.commit.interval.ms"},
    **{"partition.assignment.strategy": "partition.assignment.strategy"},
}
_READ_APART = {"enable.auto.commit", "max.poll.records", "transactional.id", "transaction.timeout.ms"}
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_PREFIX = re.compile(r"^(?:spring\.kafka\.(?:properties\.)?)?(?:(producer|consumer)\.(?:properties\.)?)?")


@dataclass
class Settings:
    """Settings by librdkafka's names. `given` is False without a file. `left_out` are keys that were not taken over."""

    given: bool = False
    file: str = ""
    producer: dict[str, Scalar] = field(default_factory=dict)
    consumer: dict[str, Scalar] = field(default_factory=dict)
    auto_commit: bool | None = None
    max_poll_records: int | None = None
    transactional: bool = False
    left_out: list[str] = field(default_factory=list)

    @property
    def loses_by_acks(self) -> bool:
        """Whether a record may be acknowledged that only the leader has."""
        return str(self.producer.get("acks", "")) in ("0", "1")

    @property
    def poll_interval_s(self) -> float:
        """max.poll.interval.ms in seconds; of a replay, where it is not known."""
        return float(self.consumer.get("max.poll.interval.ms", 6000)) / 1000


def read(path: Path | None) -> Settings:
    """Read the file. Raises `UsageError` for what is neither properties nor YAML."""
    if path is None:
        return Settings()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not text"
        raise UsageError(f"--clients {path} cannot be read: {why}") from None
    pairs = _yaml(text, path) if path.suffix in (".yaml", ".yml") else _properties(text, path)
    settings = Settings(given=True, file=path.name)
    for key, value in pairs:
        _take(settings, key, value)
    _reconcile(settings)
    if not (settings.producer or settings.consumer or settings.auto_commit is not None or settings.transactional):
        raise UsageError(f"--clients {path} has no setting of a producer or consumer that is known, such as acks=all")
    return settings


def _yaml(text: str, path: Path) -> list[tuple[str, Any]]:
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"--clients {path}{where} is not valid YAML: {getattr(e, 'problem', e)}") from None
    if not isinstance(data, dict):
        raise UsageError(f"--clients {path} must be a mapping of settings, such as acks: all")
    return list(_flat("", data))


def _flat(prefix: str, data: dict[Any, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in data.items():
        name = f"{prefix}{key}"
        found += _flat(f"{name}.", value) if isinstance(value, dict) else [(name, value)]
    return found


def _properties(text: str, path: Path) -> list[tuple[str, str]]:
    found = []
    for number, line in enumerate(re.sub(r"\\\r?\n\s*", "", text).splitlines(), start=1):
        if not line.strip() or line.lstrip()[0] in "#!":
            continue
        match = re.match(r"\s*([\w.\-]+)\s*[=:\s]\s*(.*?)\s*$", line)
        if match is None:
            raise UsageError(f"--clients {path}:{number} is not a setting; write key=value, such as acks=all")
        found.append((match[1], match[2]))
    return found


def _take(settings: Settings, key: str, value: Any) -> None:
    match = _PREFIX.match(key)
    role, name = (match[1] if match else None), key[match.end() if match else 0 :].replace("-", ".")
    if value is None or isinstance(value, list | dict):
        value = ",".join(map(str, value)) if isinstance(value, list) else ""
    if name == "enable.auto.commit":
        settings.auto_commit = str(value).lower() == "true"
    elif name == "max.poll.records" and str(value).isdigit():
        settings.max_poll_records = int(value)
    elif name == "transactional.id":
        settings.transactional = True
    elif name in PRODUCER and role != "consumer" and (name not in CONSUMER or role == "producer"):
        settings.producer[PRODUCER[name]] = _scalar(value)
    elif name in CONSUMER and role != "producer":
        settings.consumer[CONSUMER[name]] = _scalar(_assignors(str(value)) if "assignment" in name else value)
    elif name not in _READ_APART:
        settings.left_out.append(key)  # the key only: a value may be a secret


def _assignors(value: str) -> str:
    names = [name.strip().rpartition(".")[2] for name in value.split(",")]
    return ",".join(_ASSIGNORS.get(name, name) for name in names)


def _scalar(value: Any) -> Scalar:
    text = str(value).strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def _reconcile(settings: Settings) -> None:
    """What librdkafka refuses together, though Java does not, or what follows."""
    p, c = settings.producer, settings.consumer
    if p.get("acks") == -1:
        p["acks"] = "all"
    if settings.loses_by_acks:
        p["enable.idempotence"] = False
    in_flight = p.get("max.in.flight.requests.per.connection")
    if p.get("enable.idempotence", True) is True and isinstance(in_flight, int) and in_flight > 5:
        p["enable.idempotence"] = False
    poll, session = c.get("max.poll.interval.ms"), c.get("session.timeout.ms", 45_000)
    if isinstance(poll, int) and isinstance(session, int) and poll < session and c.get("group.protocol") != "consumer":
        c["session.timeout.ms"] = poll
