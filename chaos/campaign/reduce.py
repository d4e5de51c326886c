"""Removable parts of a scenario: faults, clients, records, members, partitions, settings.

A scenario is plain data here (`chaos.campaign.subject.raw_of`). After a removal the rest is repaired where possible: a
fault that waits for a removed fault gets that fault's trigger, and unused topics are removed. `chaos.scenario` refuses
what is still invalid.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.campaign.subject import Raw
from chaos.setup.triggers import parse_after

ENTRIES = ("faults", "consumers", "processors", "producers")
"""The lists of removable elements, in the order in which they are removed."""
_IDENTITY = {"name", "mode", "topic", "topics", "pattern", "group", "to", "kind", "target", "when", "other"}
_NUMBERS = {
    "topics": {"partitions": 1, "replication_factor": 3},
    "producers": {"count": 1},
    "consumers": {"members": 1},
    "processors": {"members": 1},
}
"""Numbers that can be lowered, by section, with their defaults."""
_RECORDS = 10_000
"""The default of a producer's `records`."""


@dataclass(frozen=True)
class Part:
    """A removable part: an element of a list by its name, or a setting by its path in the element."""

    section: str
    name: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join(filter(None, [self.section, self.name, *self.path]))


def entries(raw: Raw) -> list[Part]:
    """Return every fault and every client."""
    return [Part(section, entry["name"]) for section in ENTRIES for entry in raw.get(section, [])]


def faults_and_others(raw: Raw) -> tuple[list[Part], list[Part]]:
    """Return every fault, and every client."""
    found = entries(raw)
    return [p for p in found if p.section == "faults"], [p for p in found if p.section != "faults"]


def keep_entries(raw: Raw, kept: Iterable[Part]) -> Raw:
    """Return the scenario with only these faults and clients."""
    names = {(part.section, part.name) for part in kept}
    left = copy.deepcopy(raw)
    removed = {entry["name"]: entry for entry in raw.get("faults", []) if ("faults", entry["name"]) not in names}
    for section in ENTRIES:
        if section in left:
            left[section] = [entry for entry in left[section] if (section, entry["name"]) in names]
    readers = [entry for section in ("consumers", "processors") for entry in left.get(section, [])]
    consumers = {pair for e in readers for pair in (("consumer", e["name"]), ("group", e.get("group")))}
    for fault in left.get("faults", []):
        fault["when"] = _inherited(fault["when"], removed)
        heal = fault.get("heal") or {}
        if "when" in heal:
            if _waits_for(heal["when"]) in removed:
                fault.pop("heal")  # the fault is healed at the end of the run
            else:
                heal["when"] = _without_consumer(heal["when"], consumers)
        fault["when"] = _without_consumer(fault["when"], consumers)
    return tidy(left)


def _waits_for(trigger: Raw) -> str | None:
    text = trigger.get("works", trigger).get("after")
    return parse_after(text).fault if text else None


def _inherited(trigger: Raw, removed: dict[str, Raw]) -> Raw:
    """Return the trigger of the removed fault that this trigger waits for; else the trigger itself."""
    visited: set[str] = set()
    while (name := _waits_for(trigger)) in removed and name not in visited:
        assert name is not None
        visited.add(name)
        trigger = copy.deepcopy(removed[name]["when"])
    return trigger


def _without_consumer(trigger: Raw, consumers: set[tuple[str, str | None]]) -> Raw:
    """Replace a trigger on the deliveries to a removed consumer or group by one on acknowledged records."""
    by = {(key, value) for key, value in trigger.get("delivered", {}).items() if value is not None}
    return {"acked": trigger["delivered"]["records"]} if by and not by & consumers else trigger


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def tidy(raw: Raw) -> Raw:
    """Remove empty lists, unused topics, and the expectations of removed groups."""
    used = {entry.get("topic") for entry in raw.get("producers", [])} | {
        entry.get("to") for entry in raw.get("processors", [])
    }
    readers = [*raw.get("consumers", []), *raw.get("processors", [])]
    used |= {topic for entry in raw.get("apps", []) for topic in entry.get("reads", [])}
    for effect in raw.get("effects", []):
        used |= {effect.get("of"), *_listed(effect.get("topic"))}
    if not any("pattern" in entry for entry in readers):
        used |= {topic for entry in readers for topic in entry.get("topics", [])}
        used |= {str(v).rpartition("/")[0] or v for f in raw.get("faults", []) for v in f["target"].values()}
        raw["topics"] = [entry for entry in raw["topics"] if entry["name"] in used]
    groups = {entry.get("group") for entry in (*readers, *raw.get("apps", []))}
    expected = raw.get("expect", {}).get("groups", {})
    for group in [group for group in expected if group not in groups]:
        del expected[group]
    for section in ("consumers", "processors", "faults"):
        if not raw.get(section, True):
            del raw[section]
    return raw


def records(raw: Raw) -> int:
    """Return the number of records of the largest producer."""
    return max(int(entry.get("records", _RECORDS)) for entry in raw["producers"])


def with_records(raw: Raw, largest: int) -> Raw:
    """Return the scenario with `largest` records of the largest producer; other counts and triggers in proportion."""
    share, left = largest / records(raw), copy.deepcopy(raw)
    for producer in left["producers"]:
        producer["records"] = max(1, math.ceil(producer.get("records", _RECORDS) * share))
    for fault in left.get("faults", []):
        for trigger in (fault["when"], (fault.get("heal") or {}).get("when") or {}):
            if "acked" in trigger:
                trigger["acked"] = max(1, math.floor(trigger["acked"] * share))
            elif "delivered" in trigger:
                trigger["delivered"]["records"] = max(1, math.floor(trigger["delivered"]["records"] * share))
    return left


def numbers(raw: Raw) -> Iterator[tuple[Part, int]]:
    """Yield each number above 1 that can be lowered, with its value; brokers last, since others depend on them."""
    for section, known in _NUMBERS.items():
        for entry in raw.get(section, []):
            for key, default in known.items():
                if (value := int(entry.get(key, default))) > 1:
                    yield Part(section, entry["name"], (key,)), value
    if (brokers := int(raw.get("cluster", {}).get("brokers", 3))) > 1:
        yield Part("cluster", "", ("brokers",)), brokers


def with_number(raw: Raw, part: Part, value: int) -> Raw:
    """Return the scenario with a number set to `value`."""
    left = copy.deepcopy(raw)
    _owner(left, part)[part.path[-1]] = value
    return left


def settings(raw: Raw) -> list[Part]:
    """Return every value that has a default; each key of a client configuration is a separate part."""
    parts: list[Part] = []
    for section in ("topics", *ENTRIES):
        for entry in raw.get(section, []):
            fixed = _IDENTITY | set(_NUMBERS.get(section, {})) | {"records"}
            parts += [Part(section, entry["name"], path) for path in _paths(entry, fixed)]
    fixed = {"brokers", "kafka", "driver", "metadata", "bootstrap", "security", "allow_faults", "verbs"}
    parts += [Part("cluster", "", path) for path in _paths(raw.get("cluster", {}), fixed)]
    return parts


def _paths(entry: Raw, fixed: set[str]) -> Iterator[tuple[str, ...]]:
    for key, value in entry.items():
        if key in ("config", "consumer_config") and isinstance(value, dict):
            yield from ((key, inner) for inner in value)
        elif key not in fixed:
            yield (key,)


def without_settings(raw: Raw, dropped: Sequence[Part]) -> Raw:
    """Return the scenario without these settings, so that their defaults apply."""
    left = copy.deepcopy(raw)
    for part in dropped:
        owner = _owner(left, part)
        owner.pop(part.path[-1], None)
        if len(part.path) > 1 and not owner:
            _owner(left, Part(part.section, part.name, part.path[:1])).pop(part.path[0], None)
    return left


def _owner(raw: Raw, part: Part) -> Raw:
    """Return the mapping that holds a setting."""
    owner: Any = raw.setdefault(part.section, {})
    if part.name:
        owner = next(entry for entry in owner if entry["name"] == part.name)
    for key in part.path[:-1]:
        owner = owner[key]
    mapping: Raw = owner
    return mapping
