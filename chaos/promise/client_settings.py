"""The settings of a client by their common names, with the defaults of its release."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from chaos.kafka.settings import as_text
from chaos.promise.names import Role, common_name
from chaos.promise.problems import Problems
from chaos.promise.settings import Setting, Settings, setting
from chaos.promise.values import check_value, defaults
from chaos.setup.runtimes import RUNTIMES
from chaos.setup.runtimes.choice import Client
from chaos.units import parse_duration

READ: dict[Role, frozenset[str]] = {
    "producer": frozenset(
        {
            *("acks", "enable.idempotence", "retries", "max.in.flight.requests.per.connection", "delivery.timeout.ms"),
            *("request.timeout.ms", "linger.ms", "transaction.timeout.ms", "transactional.id", "partitioner"),
            "socket.timeout.ms",
            *("partitioner.class", "partitioner.ignore.keys", "Producer.Partitioner", "retry.backoff.ms"),
            "retry.backoff.max.ms",
        }
    ),
    "consumer": frozenset(
        {
            *("enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "isolation.level"),
            *("session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "group.protocol"),
        }
    ),
}
"""The settings that the rules read, by their common names. All others are never looked at, and so never shown."""

_RESERVED_DEFAULTS = ("partition.assignment.strategy", "failOnDataLoss", "auto.commit.interval.ms")


@dataclass
class ClientPart:
    """A producer or consumer: its client library, the settings as written, and when it commits.

    why: how the client was recognized, where the user did not name it. released: whether the user named a release.
    """

    role: Role
    client: Client
    settings: Settings = field(default_factory=dict)
    commit: Setting | None = None
    why: str = ""
    released: bool = False

    @property
    def release(self) -> str | None:
        """The release of the library; for confluent-kafka the installed one, None if there is none."""
        if self.client.release is not None or RUNTIMES[self.client.runtime].newest:
            return self.client.release
        try:
            return version("confluent-kafka")
        except PackageNotFoundError:
            return None

    @property
    def library(self) -> str:
        """The library with its release, such as `kafka-clients 3.9.2`."""
        return f"{RUNTIMES[self.client.runtime].library} {self.release or ''}".strip()


def common_settings(part: ClientPart, problems: Problems) -> Settings:
    """Return the settings that the rules read, by their common names: given ones, else the defaults of the release."""
    runtime, traits = part.client.runtime, RUNTIMES[part.client.runtime]
    found = {
        name: setting(name, value, f"default of {part.library}", given=False)
        for name, value in {**defaults(runtime, part.release), **traits.defaults(part.release)}.items()
        if name in READ[part.role] and name not in _RESERVED_DEFAULTS
    }
    for own, given in part.settings.items():
        name, value = common_name(runtime, own, given.value)
        if name not in READ[part.role]:
            continue
        changed = given.meaning(_milliseconds(name, as_text(value)))
        if (checked := check_value(runtime, part.release, name, changed, problems)) is None:
            found.pop(name, None)
            continue
        earlier = found.get(name)
        if earlier is not None and earlier.given:
            problems.notes.append(
                f"{given.origin}: {given.name} is another name of {earlier.name} ({earlier.origin}); this one counts"
            )
        found[name] = checked
    return found


def _milliseconds(name: str, value: str) -> str:
    """Return the milliseconds of a duration such as `60s`, which sarama's settings are; other values as they are."""
    if name.endswith(".ms") and value[-1:].isalpha():
        try:
            return str(round(parse_duration(value) * 1000))
        except ValueError:
            return value
    return value


def is_on(settings: Settings, name: str) -> bool:
    """Return whether a setting is true."""
    return name in settings and settings[name].value == "true"


def is_given(settings: Settings, name: str, values: Collection[str] = ()) -> bool:
    """Return whether the user gave a setting, and if `values` are named, one of them."""
    found = settings.get(name)
    return found is not None and found.given and (not values or found.value in values)
