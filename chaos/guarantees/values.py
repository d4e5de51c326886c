"""Values of settings with their origins: what a client or a broker reads, in one form. No message contains a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import yaml

from chaos.clients.traits import number
from chaos.errors import UsageError
from chaos.kafka.settings import Scalar, as_text

PLACEHOLDER = re.compile(r"\$\{[^}]*\}?|\{\{.*?\}\}|(?<!\w)@[\w.\-]+@|%[A-Za-z_]\w*%|\$[A-Za-z_]\w*")
_INTEGER = re.compile(r"[+-]?\d{1,19}")
_BOOLEANS = {"true": "true", "false": "false"}
_RESETS = {"earliest": "earliest", "latest": "latest", "none": "none"}
_LEVELS = {"read_committed": "read_committed", "read_uncommitted": "read_uncommitted"}
_ACKS = {"all": "all", "-1": "all", "0": "0", "1": "1"}
BOOLEANS = frozenset(
    {
        *("enable.idempotence", "enable.auto.commit", "enable.auto.offset.store", "partitioner.ignore.keys"),
        "unclean.leader.election.enable",
    }
)
TEXTS = frozenset(
    {
        *("transactional.id", "partitioner", "partitioner.class", "Producer.Partitioner", "group.protocol"),
        *("cleanup.policy", "log.cleanup.policy"),
    }
)
_MAX_INT = 2**31 - 1
_INTS = frozenset(
    {
        *("retries", "delivery.timeout.ms", "request.timeout.ms", "max.in.flight.requests.per.connection"),
        *("transaction.timeout.ms", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"),
    }
)
"""Settings of the Java client of type int."""
_LIBRDKAFKA = {
    "enable.idempotence": {**_BOOLEANS, "1": "true", "0": "false", "t": "true", "f": "false"},
    "auto.offset.reset": {
        **dict.fromkeys(["smallest", "earliest", "beginning"], "earliest"),
        **dict.fromkeys(["largest", "latest", "end"], "latest"),
        "error": "none",
    },
}


@dataclass(frozen=True)
class Setting:
    """A value with its origin.

    name: as it is written, such as `Producer.RequiredAcks`. origin: where it comes from, such as `app.yaml:4` or
    `default of kafka-clients 3.9.2`. given: whether the user set it, so that it is no default. written: the value for
    the user, where the rules have another one.
    """

    name: str
    value: str
    origin: str
    given: bool = True
    written: str = ""

    @property
    def shown(self) -> str:
        """The value for the user."""
        return self.written or self.value

    def meaning(self, value: str) -> Setting:
        """Return the setting with the value that it has for the rules; the user sees the present one."""
        return self if value == self.value else replace(self, value=value, written=self.shown)


Settings = dict[str, Setting]
"""Settings by the name that is written, or by the common name."""


Facts = dict[str, Setting]
"""What the rules read, by names such as `producer.acks`. A fact that is not known is absent."""


def setting(name: str, value: Scalar, origin: str, given: bool = True) -> Setting:
    """Return a setting with its value as Kafka reads it."""
    return Setting(name, as_text(value).strip(), origin, given)


@dataclass
class Problems:
    """What is wrong with the settings.

    refused: a client or a broker does not work with them, so that they promise nothing. notes: what has no effect, or
    not the value that it seems to have.
    """

    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def raise_refused(self) -> None:
        """Raise `UsageError` if anything is refused, with one line for each reason."""
        if self.refused:
            raise UsageError("these settings promise nothing:\n  " + "\n  ".join(unique(self.refused)))


def unique(lines: Iterable[str]) -> list[str]:
    """Return the lines in their order, each once."""
    return list(dict.fromkeys(lines))


def check_value(runtime: str, release: str | None, name: str, found: Setting, problems: Problems) -> Setting | None:
    """Return a setting in the common form; None with a problem if it is no value, or has a placeholder.

    runtime: the client library, or `kafka` for topics and brokers.
    """
    if PLACEHOLDER.search(found.value) and name != "transactional.id":  # any value of it will do
        problems.refused.append(
            f"{found.origin}: {found.name} has a placeholder, and the promise depends on its value; fill it in"
        )
        return None
    value = found.value if runtime == "java" else found.value.lower()
    choices = _choices(runtime, name)
    if name in TEXTS:
        lower = name in ("group.protocol", "cleanup.policy", "log.cleanup.policy")
        read = "".join(found.value.lower().split()) if lower else found.value
        if name.endswith("cleanup.policy") and not set(read.split(",")) <= {"compact", "delete"}:
            problems.refused.append(f"{found.origin}: {found.name} is {found.value!r}; the values are compact, delete")
            return None
        return found.meaning(read)
    if choices is not None:
        if (runtime == "java" and name in BOOLEANS) or runtime == "kafka":
            value = value.lower()
        if value in choices:
            return found.meaning(choices[value])
        if name == "auto.offset.reset" and _takes_duration(runtime, release) and value.startswith("by_duration:"):
            return found.meaning("by_duration")
        valid = ", ".join(choices)
        problems.refused.append(f"{found.origin}: {found.name} is {found.value!r}; the values are {valid}")
        return None
    least = -1 if "retention" in name else 0
    if not _INTEGER.fullmatch(found.value) or int(found.value) < least:
        wanted = f"has to be a whole number from {least} on"
        problems.refused.append(f"{found.origin}: {found.name} is {found.value!r}, and {wanted}")
        return None
    if runtime == "java" and name in _INTS and int(found.value) > _MAX_INT:
        problems.refused.append(
            f"{found.origin}: {found.name} is {found.value}, above {_MAX_INT}: the Java client does not start"
        )
        return None
    return found.meaning(str(int(found.value)))


def check_number(found: Setting, problems: Problems) -> Setting | None:
    """Return a number of replicas or brokers; None with a problem if it is none."""
    if found.value.isdigit() and int(found.value) > 0:
        return found.meaning(str(int(found.value)))
    problems.refused.append(f"{found.origin}: {found.name} is {found.value!r}, and has to be a whole number from 1 on")
    return None


def _choices(runtime: str, name: str) -> dict[str, str] | None:
    if runtime == "confluent" and name == "auto.offset.reset":
        return _LIBRDKAFKA[name]
    if name in BOOLEANS:
        return _LIBRDKAFKA["enable.idempotence"] if runtime == "confluent" else _BOOLEANS
    return {"auto.offset.reset": _RESETS, "isolation.level": _LEVELS, "acks": _ACKS}.get(name)


def _takes_duration(runtime: str, release: str | None) -> bool:
    return runtime == "java" and (release is None or number(release) >= (4, 0, 0))  # KIP-1106


@cache
def _defaults() -> dict[str, dict[str, Scalar | list[dict[str, Scalar]]]]:
    text = Path(__file__).with_name("defaults.yaml").read_text(encoding="utf-8")
    found: dict[str, dict[str, Scalar | list[dict[str, Scalar]]]] = yaml.safe_load(text)
    return found


def defaults(software: str, release: str | None) -> dict[str, str]:
    """Return the defaults in `defaults.yaml` of a client library or of `kafka`, for a release (None: newest)."""
    found: dict[str, str] = {}
    for name, value in _defaults().get(software, {}).items():
        steps = value if isinstance(value, list) else [{"value": value}]
        for step in steps:
            if release is None or "since" not in step or number(release) >= number(str(step["since"])):
                found[name] = as_text(step["value"])
    return found
