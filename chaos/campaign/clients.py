"""Subjects with another client library, and the names of the client libraries of a scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from chaos.campaign.subject import Subject, dump, raw_of
from chaos.clients.choice import DEFAULT, RUNTIMES, Client, parse_client
from chaos.clients.java.traits import ASSIGNORS, PACKAGE
from chaos.clients.runtime import runtime
from chaos.errors import ScenarioError, UsageError
from chaos.kafka.settings import Config
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from chaos.setup.clients import Entry, Processor, assignors_of

ALIASES = {
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
}
"""Settings of librdkafka that its documentation also lists with the name of the Java client."""
_ASSIGNORS = "partition.assignment.strategy"
_JAVA_NAMES = {name: PACKAGE + cls for cls, name in ASSIGNORS.items()}


def parse_choice(text: str) -> Client:
    """Return the client of `java:3.9.2`, `sarama`, or a release of confluent-kafka, with its release.

    Raises `UsageError`.
    """
    try:
        client = parse_client(f"{DEFAULT}:{text}" if text[:1].isdigit() else text)
    except ValueError as e:
        raise UsageError(f"client {text}: {e}") from None
    if client.release is None:
        return client.model_copy(update={"release": runtime(client.runtime).default_release()})
    return client


def all_clients() -> list[Client]:
    """Return every client library, in the release of an entry that names none."""
    return [parse_choice(name) for name in RUNTIMES]


def clients_of(scenario: Scenario, versions: Mapping[str, str] | None = None) -> str:
    """Return the client libraries of a scenario: `java:3.9.2, sarama:1.61.1`; for confluent-kafka alone its release.

    versions: releases by library, as recorded; if left out, the releases of the scenario.
    """
    libraries: dict[str, list[Client]] = {}
    for client in scenario.client_libraries:
        libraries.setdefault(client.traits.library, []).append(client)
    names = []
    for library, clients in libraries.items():
        runtimes = "+".join(sorted({client.runtime for client in clients}))
        if versions is None:
            found = {client.release or runtime(client.runtime).default_release() for client in clients}
            releases = ", ".join(sorted(found))
        else:
            releases = versions.get(library, "")
        names.append(releases if runtimes == DEFAULT and len(libraries) == 1 else f"{runtimes}:{releases}")
    return ", ".join(sorted(names))


def with_client(subject: Subject, client: Client) -> Subject:
    """Return the subject with this client library in every entry, in place of the entry's own.

    Settings keep their meaning: settings with common names get the names of the library, and defaults are the new
    library's. Raises `ScenarioError` with the first reason if the library lacks something that the scenario asks for,
    or a setting has no name in it.
    """
    raw = raw_of(subject.scenario)
    raw.pop("clients", None)
    for key in ("producers", "consumers", "processors"):
        for entry, plain in zip(getattr(subject.scenario, key), raw.get(key, []), strict=True):
            plain["client"] = client.model_dump(mode="json", exclude_none=True)
            for name in ("config", "consumer_config") if isinstance(entry, Processor) else ("config",):
                if name in plain:  # left out, the new library sets its defaults
                    plain[name] = _translated(getattr(entry, name), entry, client)
            if client.runtime == DEFAULT:  # its release has a field for all entries
                del plain["client"]
                raw["clients"] = {"confluent_kafka": client.release}
    try:
        scenario = parse(dump(raw), subject.source)
    except ScenarioError as e:
        _, *problems = (line.strip() for line in str(e).splitlines())  # of a text that the user has never seen
        raise ScenarioError(_first([re.sub(r"^.*?: (?=\w+\[)", "", problem) for problem in problems])) from None
    return replace(subject, scenario=scenario, outcome=None)


def _first(problems: list[str]) -> str:
    return problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")


def _translated(config: Config, entry: Entry, client: Client) -> Config:
    """Return settings by the names of another library, as far as it has the same setting; others keep their name."""
    old, new = entry.client.traits, client.traits
    if old.name == new.name:
        return config
    common = {ALIASES.get(name, name): value for name, value in old.common(config).items()}
    if _ASSIGNORS in common:
        names = assignors_of(config, entry.client)
        common[_ASSIGNORS] = ",".join(_JAVA_NAMES.get(name, name) if new.name == "java" else name for name in names)
    own = ((new.misnamed.get(name) or name, name, value) for name, value in common.items())
    # another name that means the same, as kafka.isolation.level of Spark
    return {name if new.common({name: value}) == {known: value} else known: value for name, known, value in own}
