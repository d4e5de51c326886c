"""What `bisect` steps through: releases of Kafka or of a client library, or commands or images of an application."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import yaml

from chaos.clients.choice import DEFAULT, RUNTIMES
from chaos.errors import UsageError
from chaos.scenario.model import Scenario

RELEASES = Path(__file__).with_name("releases.yaml")

SAME_RELEASES = {"kafka-clients": "kafka"}
"""Libraries that are released together with another software of the list."""
NAMES = {"kafka": "Kafka"}
"""Names in sentences, where they differ."""


def known_releases(software: str) -> list[str]:
    """Return all known releases of Kafka (`kafka`) or of a client library by its package, oldest first."""
    found = yaml.safe_load(RELEASES.read_text(encoding="utf-8"))
    releases: list[str] = found.get(SAME_RELEASES.get(software, software), [])
    return releases


def check_release(software: str, release: str) -> None:
    """Raise `UsageError` for an unknown release, with the nearest known ones."""
    known = known_releases(software)
    if release not in known:
        near = get_close_matches(release, known, 3)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise UsageError(
            f"{NAMES.get(software, software)} {release} is not in {RELEASES.name}{hint}; "
            f"it has {known[0]} to {known[-1]}"
        )


@dataclass(frozen=True)
class Axis:
    """The releases to search, oldest first. software: `kafka`, the package of a client library, or an application.

    runtime: the runtime of the library; None for others. field: what an application has other ones of, `command` or
    `image`; empty for others.
    """

    software: str
    releases: Sequence[str]
    runtime: str | None = None
    field: str = ""

    @property
    def name(self) -> str:
        """Name of the software in sentences."""
        return f"{self.software} {self.field}" if self.field else NAMES.get(self.software, self.software)

    @property
    def what(self) -> str:
        """What is searched, in the singular."""
        return f"{self.field} of {self.software}" if self.field else f"release of {self.name}"

    def run_id(self, index: int) -> str:
        """Return the begin of the ids of runs with a release. A command is no name of a folder."""
        return f"{self.software}-{index + 1 if self.field else self.releases[index]}"

    def overrides(self, scenario: Scenario, release: str) -> list[str]:
        """Return the overrides that select a release: for the entries with the runtime, or for all if none has it.

        A release that such an entry names itself is replaced too.
        """
        if self.field:
            return [f"apps.{self.software}.{self.field}={json.dumps(release)}"]
        if self.runtime is None:
            return [f"cluster.kafka={release!r}"]
        entries = [
            (key, entry)
            for key in ("producers", "consumers", "processors")
            for entry in getattr(scenario, key)
        ]  # fmt: skip
        own = [(key, entry) for key, entry in entries if entry.client.runtime == self.runtime] or entries
        common = []
        if self.runtime == DEFAULT:  # its release has a field for all entries that name none
            common = [f"clients.confluent_kafka={release!r}"]
            own = [(key, entry) for key, entry in own if entry.client.runtime != DEFAULT or entry.client.release]
        client = json.dumps(f"{self.runtime}:{release}")
        return [*common, *(f"{key}.{entry.name}.client={client}" for key, entry in own)]


def kafka_axis(span: str) -> Axis:
    """Return the Kafka releases of `A..B`. Raises `UsageError`."""
    return Axis("kafka", _span("--kafka ", span, known_releases("kafka"), "kafka"))


def app_axis(given: Sequence[str], scenario: Scenario) -> Axis:
    """Return the commands, or images, of one application, each given as `NAME=COMMAND`. Raises `UsageError`."""
    pairs = [text.partition("=") for text in given]
    apps = {app.name: app for app in scenario.apps}
    for text, (name, equals, value) in zip(given, pairs, strict=True):
        if not equals or not value.strip():
            raise UsageError(
                f"--app {text!r} is not understood; write NAME=COMMAND, such as 'billing=python service.py'"
            )
        if name not in apps:
            known = f"it has {', '.join(apps)}" if apps else "it has none"
            raise UsageError(f"--app {text!r}: the scenario has no application {name!r}; {known}")
    names = list(dict.fromkeys(name for name, _, _ in pairs))
    if len(names) > 1:
        raise UsageError(f"--app: the search is over one application, and {' and '.join(names)} are given")
    chosen = [value.strip() for _, _, value in pairs]
    if len(chosen) < 2:
        raise UsageError("--app: give it twice at least, the oldest command first and the newest last")
    if len(chosen) != len(set(chosen)):
        raise UsageError("--app: a command is there twice")
    app = apps[names[0]]
    if app.external:
        raise UsageError(f"--app: {app.name} is external, so Aftershock does not start it")
    return Axis(app.name, chosen, field="image" if app.image is not None else "command")


def client_axis(text: str) -> Axis:
    """Return the releases that `--client` means. Raises `UsageError`.

    `A..B` are releases of confluent-kafka, `kafka-python` all known ones of a runtime, `kafka-python:A..B` a part of
    them, `kafka-python:A,B,C` any others.
    """
    runtime, colon, releases = text.partition(":")
    if not colon and text[:1].isdigit():
        runtime, releases = DEFAULT, text
    if runtime not in RUNTIMES:
        near = get_close_matches(runtime, RUNTIMES, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise UsageError(f"--client {text!r}: there is no runtime {runtime!r}{hint}; see {', '.join(RUNTIMES)}")
    traits = RUNTIMES[runtime]
    if "," in releases:
        chosen = [release.strip() for release in releases.split(",")]
    else:
        known = [r for r in known_releases(traits.library) if not traits.release_problem(r)]
        if not known:
            raise UsageError(
                f"--client {text!r}: no releases of {traits.library} are known; list them, as {runtime}:A,B"
            )
        chosen = _span(f"--client {runtime}:", releases, known, traits.library) if releases else known
    if problem := next((p for r in chosen if (p := traits.release_problem(r))), ""):
        raise UsageError(f"--client {text!r}: {problem}")
    if len(chosen) != len(set(chosen)):
        raise UsageError(f"--client {text!r}: a release is there twice")
    return Axis(traits.library, chosen, runtime)


def _span(before: str, text: str, known: Sequence[str], software: str) -> list[str]:
    """Return the known releases of `A..B`, both ends included, oldest first. Raises `UsageError`.

    before: what precedes the text on the command line.
    """
    older, dots, newer = text.partition("..")
    if not dots or not older or not newer:
        raise UsageError(
            f"{before}{text} is not understood; write the older and the newer release, "
            f"as {before}{known[max(-9, -len(known))]}..{known[-1]}"
        )
    for release in (older, newer):
        check_release(software, release)
    if unsupported := [release for release in (older, newer) if release not in known]:
        raise UsageError(f"{before}{text}: {software} {unsupported[0]} is not supported; see {known[0]}..{known[-1]}")
    first, last = known.index(older), known.index(newer)
    if first >= last:
        raise UsageError(f"{before}{text}: the first release must be the older one, and they must differ")
    return list(known[first : last + 1])
