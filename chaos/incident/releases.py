"""The known releases of Kafka and confluent-kafka, from `releases.yaml`."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import yaml

from chaos.errors import UsageError

RELEASES = Path(__file__).with_name("releases.yaml")

Software = Literal["kafka", "client"]
NAMES: dict[Software, str] = {"kafka": "Kafka", "client": "confluent-kafka"}
SETTINGS: dict[Software, str] = {"kafka": "cluster.kafka", "client": "clients.confluent_kafka"}
"""The path in a scenario that selects a release."""


def known_releases(software: Software) -> list[str]:
    """Return all known releases, oldest first."""
    releases: list[str] = yaml.safe_load(RELEASES.read_text(encoding="utf-8"))[NAMES[software].lower()]
    return releases


def check_release(software: Software, release: str) -> None:
    """Raise `UsageError` for an unknown release, with the nearest known ones."""
    known = known_releases(software)
    if release not in known:
        near = get_close_matches(release, known, 3)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise UsageError(
            f"{NAMES[software]} {release} is not in {RELEASES.name}{hint}; it has {known[0]} to {known[-1]}"
        )


def parse_range(software: Software, text: str) -> list[str]:
    """Return the known releases of `A..B`, both ends included, oldest first. Raises `UsageError`."""
    older, dots, newer = text.partition("..")
    known = known_releases(software)
    if not dots or not older or not newer:
        raise UsageError(
            f"--{software} {text!r} is not understood; write the older and the newer release, "
            f"as {known[-9]}..{known[-1]}"
        )
    for release in (older, newer):
        check_release(software, release)
    first, last = known.index(older), known.index(newer)
    if first >= last:
        raise UsageError(f"--{software} {text}: the first release must be the older one, and they must differ")
    return known[first : last + 1]
