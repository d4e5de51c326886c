"""Settings of producers and consumers for a draft, by the names of librdkafka. `chaos.guarantees` reads the file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from chaos.errors import UsageError
from chaos.guarantees.dialects.files import open_settings
from chaos.guarantees.dialects.frameworks import CLIENTS, Selection
from chaos.guarantees.names import Role
from chaos.guarantees.values import Problems

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
        """max.poll.interval.ms in seconds; the value of a replay if it is unknown."""
        return float(self.consumer.get("max.poll.interval.ms", 6000)) / 1000


def read_client_settings(path: Path | None, select: tuple[str, ...] = ()) -> ClientSettings:
    """Return the settings in a file; empty ones without a file. Raises `UsageError` if it has no known setting.

    select: what is chosen of a file with several applications.
    """
    if path is None and select:
        raise UsageError("--select chooses among the applications of a file; give the file with --clients")
    if path is None:
        return ClientSettings()
    selection = Selection(select)
    file = open_settings("--clients", path, CLIENTS, selection, Problems())
    settings, used = ClientSettings(file=path.name), set[str]()
    if file.plain:
        for name, given in file.read(True, []).items():
            used |= {name} if _add(settings, None, name, given.value) else set()
    else:
        for role in CLIENTS:
            found = file.choose(role, selection)
            for name, given in found.settings.items() if found else ():
                used |= {given.name.replace(":", ".")} if _add(settings, role, name, given.value) else set()
    selection.check()
    names = (entry.name for entry in file.text.entries([]))
    settings.ignored = [name for name in names if name not in used]  # without the values, which may be secrets
    _reconcile(settings)
    if not (settings.producer or settings.consumer or settings.auto_commit is not None or settings.transactional):
        raise UsageError(f"--clients {path} has no known setting of a producer or consumer, such as acks=all")
    return settings


def _add(settings: ClientSettings, role: Role | None, name: str, text: str) -> bool:
    """Add a setting; return whether a draft has a place for it. role: None if the file does not say it."""
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
    else:
        return name in _IGNORED_KEYS
    return True


def _assignors(value: str) -> str:
    names = [name.strip().rpartition(".")[2] for name in value.split(",")]
    return ",".join(_ASSIGNORS.get(name, name) for name in names)


def scalar(text: str) -> Scalar:
    """Return the value of a setting as a boolean or integer if its text is one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"-?\d{1,19}", text) else text


def _reconcile(settings: ClientSettings) -> None:
    """Change settings that Java accepts but librdkafka rejects, and set settings that follow from others."""
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
