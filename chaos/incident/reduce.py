"""What can be taken away from a scenario: faults, clients, records, members, partitions, settings.

A scenario is plain data here (`chaos.incident.subject.raw_of`). What is left after a part was taken away is put right
where the scenario's meaning allows it: a fault that waited for one that is gone takes that one's place in the timeline,
a topic that nobody uses any more goes too. What makes no sense even so is for `chaos.scenario` to refuse.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.incident.subject import Raw
from chaos.scenario.triggers import parse_after

ENTRIES = ("faults", "consumers", "processors", "producers")
"""The lists whose elements can be left out, in the order in which that is tried."""
_IDENTITY = {"name", "mode", "topic", "topics", "pattern", "group", "to", "kind", "target", "when", "other"}
_NUMBERS = {
    "topics": {"partitions": 1, "replication_factor": 3},
    "producers": {"count": 1},
    "consumers": {"members": 1},
    "processors": {"members": 1},
}
"""Numbers that can be lowered, with their defaults."""
_RECORDS = 10_000
"""The default of a producer's `records`."""


@dataclass(frozen=True)
class Part:
    """Something that can be left out: an element of a list by its name, or a setting by its path within one."""

    section: str
    name: str
    path: tuple[str, ...] = ()

    def words(self) -> str:
        """As a person reads it."""
        return ".".join(filter(None, [self.section, self.name, *self.path]))


def entries(raw: Raw) -> list[Part]:
    """Every fault and every client."""
    return [Part(section, one["name"]) for section in ENTRIES for one in raw.get(section, [])]


def keep_entries(raw: Raw, kept: Iterable[Part]) -> Raw:
    """The scenario with these faults and clients alone."""
    wanted = {(part.section, part.name) for part in kept}
    left = copy.deepcopy(raw)
    gone = {one["name"]: one for one in raw.get("faults", []) if ("faults", one["name"]) not in wanted}
    for section in ENTRIES:
        if section in left:
            left[section] = [one for one in left[section] if (section, one["name"]) in wanted]
    consumers = {one["name"] for section in ("consumers", "processors") for one in left.get(section, [])}
    for fault in left.get("faults", []):
        fault["when"] = _moved_up(fault["when"], gone)
        heal = fault.get("heal") or {}
        if "when" in heal:
            if _waits_for(heal["when"]) in gone:
                fault.pop("heal")  # it is healed at the end
            else:
                heal["when"] = _without_consumer(heal["when"], consumers)
        fault["when"] = _without_consumer(fault["when"], consumers)
    return tidy(left)


def _waits_for(trigger: Raw) -> str | None:
    return parse_after(trigger["after"]).fault if "after" in trigger else None


def _moved_up(trigger: Raw, gone: dict[str, Raw]) -> Raw:
    """The trigger of the fault that is gone, and that this one waited for."""
    seen: set[str] = set()
    while (name := _waits_for(trigger)) in gone and name not in seen:
        assert name is not None
        seen.add(name)
        trigger = copy.deepcopy(gone[name]["when"])
    return trigger


def _without_consumer(trigger: Raw, consumers: set[str]) -> Raw:
    """A trigger on what a consumer processed is one on what was acknowledged, where there is no such consumer."""
    delivered = trigger.get("delivered")
    return {"acked": delivered["records"]} if delivered and delivered["consumer"] not in consumers else trigger


def tidy(raw: Raw) -> Raw:
    """Without empty lists, topics that nobody uses, and expectations of groups that are gone."""
    used = {one.get("topic") for one in raw.get("producers", [])} | {one.get("to") for one in raw.get("processors", [])}
    readers = [*raw.get("consumers", []), *raw.get("processors", [])]
    if not any("pattern" in one for one in readers):
        used |= {topic for one in readers for topic in one.get("topics", [])}
        used |= {str(v).rpartition("/")[0] or v for f in raw.get("faults", []) for v in f["target"].values()}
        raw["topics"] = [one for one in raw["topics"] if one["name"] in used]
    groups = {one.get("group") for one in readers}
    expected = raw.get("expect", {}).get("groups", {})
    for group in [group for group in expected if group not in groups]:
        del expected[group]
    for section in ("consumers", "processors", "faults"):
        if not raw.get(section, True):
            del raw[section]
    return raw


def records(raw: Raw) -> int:
    """How many records the largest producer sends."""
    return max(int(one.get("records", _RECORDS)) for one in raw["producers"])


def with_records(raw: Raw, most: int) -> Raw:
    """With so many records of the largest producer, and all other counts in proportion, triggers included."""
    share, left = most / records(raw), copy.deepcopy(raw)
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
    """What can be lowered, down to 1, with its value; the brokers are the last, for others depend on them."""
    for section, known in _NUMBERS.items():
        for one in raw.get(section, []):
            for key, default in known.items():
                if (value := int(one.get(key, default))) > 1:
                    yield Part(section, one["name"], (key,)), value
    if (brokers := int(raw.get("cluster", {}).get("brokers", 3))) > 1:
        yield Part("cluster", "", ("brokers",)), brokers


def with_number(raw: Raw, part: Part, value: int) -> Raw:
    """With a number lowered."""
    left = copy.deepcopy(raw)
    _owner(left, part)[part.path[-1]] = value
    return left


def settings(raw: Raw) -> list[Part]:
    """Every value that need not be given: without it, the default holds. What `config` holds is taken one by one."""
    found: list[Part] = []
    for section in ("topics", *ENTRIES):
        for one in raw.get(section, []):
            fixed = _IDENTITY | set(_NUMBERS.get(section, {})) | {"records"}
            found += [Part(section, one["name"], path) for path in _paths(one, fixed)]
    fixed = {"brokers", "kafka", "driver", "metadata", "bootstrap", "security", "allow_faults", "verbs"}
    found += [Part("cluster", "", path) for path in _paths(raw.get("cluster", {}), fixed)]
    return found


def _paths(one: Raw, fixed: set[str]) -> Iterator[tuple[str, ...]]:
    for key, value in one.items():
        if key in ("config", "consumer_config") and isinstance(value, dict):
            yield from ((key, inner) for inner in value)
        elif key not in fixed:
            yield (key,)


def without_settings(raw: Raw, dropped: Sequence[Part]) -> Raw:
    """With the defaults of these."""
    left = copy.deepcopy(raw)
    for part in dropped:
        owner = _owner(left, part)
        owner.pop(part.path[-1], None)
        if len(part.path) > 1 and not owner:
            _owner(left, Part(part.section, part.name, part.path[:1])).pop(part.path[0], None)
    return left


def _owner(raw: Raw, part: Part) -> Raw:
    """What a setting stands in."""
    place: Any = raw.setdefault(part.section, {})
    if part.name:
        place = next(one for one in place if one["name"] == part.name)
    for key in part.path[:-1]:
        place = place[key]
    found: Raw = place
    return found
