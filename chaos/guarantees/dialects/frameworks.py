"""Frameworks: which of their names are settings of Kafka, what they set themselves, and when they commit.

`dialects.yaml` has their names. Here are rules that a table cannot say: the meaning of ack-mode in Spring, of commit
strategies in SmallRye, of guarantees in Kafka Streams, of a worker in Connect, and which profile counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from chaos.errors import UsageError
from chaos.guarantees.dialects.forms import Entry, Text
from chaos.guarantees.facts import READ
from chaos.guarantees.names import ALIASES, Part, Role, known
from chaos.guarantees.values import PLACEHOLDER, Problems, Setting, Settings
from chaos.kafka.settings import as_text
from chaos.units import parse_duration

CLIENTS: tuple[Role, Role] = ("producer", "consumer")
_DEFAULT_PROFILE = "default"
IGNORED_SECTIONS = ("logging", "serilog", "nlog", "connectionstrings", "allowedhosts")
GENERIC = frozenset({"retries", "partitioner", "isolation.level", "group.protocol", "linger.ms"})
"""Settings with names that other software has too; only below a section of Kafka they may be Kafka's."""


@dataclass
class Found:
    """A part of an application in a file.

    name: of the section, channel or service; empty if the file has one only. label: the dialect. runtime: the client
    library of the dialect; empty if the names have to say it. commit: when the framework commits, if that is known.
    extras: settings that are none of Kafka, such as `replicas`. bare: whether the file has only what all clients share.
    """

    part: Part
    name: str
    label: str
    runtime: str = ""
    settings: Settings = field(default_factory=dict)
    commit: Setting | None = None
    extras: Settings = field(default_factory=dict)
    bare: bool = False


@dataclass
class Selection:
    """The names that the user chose, of profiles, sections, channels and services."""

    names: tuple[str, ...] = ()
    used: set[str] = field(default_factory=set)
    offered: list[str] = field(default_factory=list)

    def takes(self, name: str) -> bool:
        """Return whether a name is chosen, by all of its parts or by some."""
        self.offered.append(name)
        parts = {name.lower(), *re.split(r"[:./]", name.lower())}
        hits = {
            chosen for chosen in self.names if chosen.lower() in parts or name.lower().endswith(f":{chosen.lower()}")
        }
        self.used |= hits
        return bool(hits)

    def check(self) -> None:
        """Raise `UsageError` for a chosen name that no file has."""
        for name in self.names:
            if name not in self.used:
                offered = ", ".join(dict.fromkeys(filter(None, self.offered))) or "nothing to choose from"
                raise UsageError(f"--select {name}: no file has it; there is {offered}")


@cache
def table() -> dict[str, Any]:
    """Return `dialects.yaml`."""
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("dialects.yaml").read_text(encoding="utf-8"))
    return found


def squash(name: str) -> str:
    """Return the letters and digits of a name, in lower case: what all spellings of a name have in common."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def client_names() -> frozenset[str]:
    """Return all names that Java's clients and librdkafka know."""
    return frozenset().union(*(known(f"{library}-{role}") for library in ("java", "librdkafka") for role in CLIENTS))


@cache
def _mattering() -> dict[str, str]:
    """Return the names on which promises depend, by their letters."""
    names = {*READ["producer"], *READ["consumer"], *ALIASES["confluent"]} - {"Producer.Partitioner"}
    return {squash(name): name for name in sorted(names)}


def setting_of(entry: Entry, value: str | None = None, separator: str = ".") -> Setting:
    """Return an entry as a setting. value: what the client gets, if that is not what the entry has."""
    value = entry.value if value is None else value
    return Setting(
        separator.join(entry.path), value, entry.origin, written=entry.written if entry.written != value else ""
    )


def _loose(part: str) -> str:
    return part.lower().replace("-", "").replace("_", "")


def begins(path: Sequence[str], sign: str, relaxed: bool = False) -> bool:
    """Return whether a name begins with another one. relaxed: whatever its case and its dashes, as in Spring."""
    change: Callable[[str], str] = _loose if relaxed else str
    own = sign.split(".") if sign else []
    return [change(part) for part in path[: len(own)]] == [change(part) for part in own]


def _without_profile(path: tuple[str, ...]) -> tuple[str, ...]:
    return path[1:] if path and path[0].startswith("%") else path


def _names_in(expression: str) -> list[str]:
    """Return the profiles that an expression such as `prod & !cloud` names."""
    return list(dict.fromkeys(re.findall(r"[^\s()!&|,]+", expression)))


def _holds(expression: str, active: Collection[str]) -> bool:
    """Return whether an expression of profiles holds, as Spring evaluates it: `!`, `&`, `|`; a comma is `or`.

    An expression that cannot be read does not hold. active: the profiles that are on.
    """
    tokens = re.findall(r"[()!&|,]|[^\s()!&|,]+", expression)

    def any_of() -> bool:
        held = all_of()
        while tokens and tokens[0] in "|,":
            tokens.pop(0)
            held = all_of() or held
        return held

    def all_of() -> bool:
        held = one()
        while tokens and tokens[0] == "&":
            tokens.pop(0)
            held = one() and held
        return held

    def one() -> bool:
        token = tokens.pop(0) if tokens else ""
        if token == "!":
            return not one()
        if token == "(":
            held = any_of()
            return bool(tokens) and tokens.pop(0) == ")" and held
        return token in active

    return any_of() and not tokens


def dialect_of(entries: Iterable[Entry]) -> str:
    """Return the dialect that names are a sign of; empty if none is."""
    paths = [_without_profile(entry.path) for entry in entries]
    for key in ("spring", "quarkus", "streams", "connect"):
        own = table()[key]
        if any(begins(path, sign, own.get("relaxed", False)) for path in paths for sign in own["signs"]):
            return key
    return ""


def is_kafkas(section: Sequence[str]) -> bool:
    """Return whether the name of a section says that it is Kafka's."""
    return any(word in squash(part) for part in section for word in ("kafka", "producer", "consumer", "confluent"))


def may_matter(path: Sequence[str]) -> str:
    """Return the setting that a name outside of every dialect may be; empty if no promise depends on it."""
    if squash(path[0]) in IGNORED_SECTIONS:
        return ""
    kafkas = is_kafkas(path)
    for start in range(len(path) - 1, max(-1, len(path) - 8), -1):
        letters = squash("".join(path[start:]))
        if letters in _mattering():
            name = _mattering()[letters]
            distinctive = name not in GENERIC and not name.endswith("timeout.ms") and name != "retry.backoff.ms"
            return name if kafkas or distinctive else ""
        if kafkas and len(letters) > 3 and (near := get_close_matches(letters, _mattering(), 1, 0.85)):
            return _mattering()[near[0]]
    return ""


_Row = tuple[int, str, Setting]
"""Rank, name in Kafka, and setting."""


@dataclass
class _Placed:
    """The settings of a file by what they are for: all clients, or one part and channel."""

    shared: dict[Part, list[_Row]] = field(default_factory=dict)
    own: dict[tuple[Part, str], list[_Row]] = field(default_factory=dict)
    extras: dict[str, Settings] = field(default_factory=dict)

    def settings(self, part: Part, channel: str) -> Settings:
        """Return the settings of a client; of two for one name the one with the higher rank, then the later one."""
        rows = [*self.shared.get(part, []), *self.own.get((part, channel), [])]
        return {name: setting for _, name, setting in sorted(rows, key=lambda row: row[0])}

    def wanted(self, key: str, connector: Part | None) -> list[tuple[Part, str]]:
        """Return the clients that there are. A worker and an application of Kafka Streams have both.

        connector: the client of a connector of Kafka Connect.
        """
        if connector is not None:
            return [(connector, "")]
        if key in ("streams", "connect"):
            return [("producer", ""), ("consumer", "")]
        listens = key == "spring" and self.extras and ("consumer", "") not in self.own
        return [*self.own, *([("consumer", "")] if listens else [])]  # type: ignore[list-item]


class FrameworkReader:
    """A reader of the entries of one file, for the frameworks of the table."""

    def __init__(self, text: Text, selection: Selection, problems: Problems) -> None:
        self.text, self.selection, self.problems = text, selection, problems

    def refuse(self, entry: Entry, name: str, near: str = "") -> None:
        """Refuse an entry, with the nearest name that is understood."""
        hint = f"; did you mean {near}?" if near else ""
        self.problems.refused.append(f"{entry.origin}: {name} is not understood, and a promise may depend on it{hint}")

    def check_foreign(self, entries: Iterable[Entry], hint: str = "") -> None:
        """Refuse entries outside of the dialect that may set something on which a promise depends."""
        for entry in entries:
            if near := may_matter(entry.path):
                self.refuse(entry, entry.name, f"{hint}{near}")

    def of_profile(self, key: str, entries: list[Entry]) -> list[Entry]:
        """Return the entries that count: entries of no profile, then entries of active profiles."""
        signs = ("spring.config.activate.on-profile", "spring.config.activate.on-cloud-platform", "spring.profiles")
        profiles = dict[int, str]()
        for entry in entries if key == "spring" else ():
            if any(len(entry.path) == len(s.split(".")) and begins(entry.path, s, True) for s in signs):
                profiles[entry.document] = entry.value
        tagged: list[tuple[str, Entry]] = []
        for entry in entries:
            own = entry.path[0][1:] if entry.path[0].startswith("%") else profiles.get(entry.document, "")
            tagged.append((own, replace(entry, path=_without_profile(entry.path))))
        for entry in entries:
            if begins(entry.path, "spring.config.import", True):
                self.problems.notes.append(f"{entry.origin}: {entry.name} names other settings, which are not read")
        named = dict.fromkeys(own for own, _ in tagged if own)
        chosen = [[name for name in _names_in(own) if self.selection.takes(name)] for own in named]
        on = {name for names in chosen for name in names}
        active = [own for own in named if self.selection.takes(own) or (on and _holds(own, on))]
        if self.selection.takes(_DEFAULT_PROFILE) and not on:
            active = active or [own for own in named if _holds(own, {_DEFAULT_PROFILE})]
        elif not active and not on and named:
            active = self._active(key, tagged, list(named))
        return [e for own, e in tagged if not own] + [e for own, e in tagged if own in active]

    def _active(self, key: str, tagged: list[tuple[str, Entry]], named: list[str]) -> list[str]:
        """Return the profiles that are active if the user chose none. One that matters has to be chosen."""
        if key == "quarkus":
            self.problems.notes.append(
                f"{self.text.path.name} has the profiles {', '.join(named)}; prod counts, as in production; --select "
                "reads another one"
            )
            return [own for own in named if _holds(own, {"prod"})]
        set_active = [e.value for own, e in tagged if not own and begins(e.path, "spring.profiles.active", True)]
        if set_active and not any(PLACEHOLDER.search(text) for text in set_active):
            chosen = {one.strip() for text in set_active for one in text.split(",")}
            for own, e in tagged:
                group = begins(e.path, "spring.profiles.group", True) and len(e.path) > 3 and e.path[3] in chosen
                if not own and (group or begins(e.path, "spring.profiles.include", True)):
                    chosen |= {one.strip() for one in e.value.split(",")}
            return [own for own in named if _holds(own, chosen)]
        signs = table()[key]["signs"]
        mattering = [(own, e) for own, e in tagged if own and any(begins(e.path, sign, True) for sign in signs)]
        if mattering:
            own, entry = mattering[0]
            self.problems.refused.append(
                f"{entry.origin}: {entry.name} is set in the profile {own}, so the answer depends on the profile; "
                f"choose one with --select ({', '.join(named)}, or {_DEFAULT_PROFILE} for none of them)"
            )
        return []

    def apply(self, key: str, entries: list[Entry], prefix: str = "", variables: bool = False) -> list[Found]:
        """Return the clients of a framework of the table. prefix: the service that they are in."""
        placed = _Placed()
        for entry in entries:
            rule, channel = rule_of(table()[key], entry.path)
            if rule is None:
                own = squash(entry.path[0]) in ("spring", "quarkus")
                self.check_foreign([entry] if not own or is_kafkas(entry.path) else [], self._hint(key))
            elif refused := rule.get("refused"):
                self.problems.refused.append(f"{entry.origin}: {entry.name}: {refused}")
                return []
            else:
                self._place(key, entry, rule, channel, placed, variables)
        connector = self._connector(entries) if key == "connect" else None
        found = [
            Found(part, f"{prefix}{channel}", table()[key]["label"], "java", placed.settings(part, channel))
            for part, channel in placed.wanted(key, connector)
        ]
        for one in found:
            one.extras = placed.extras.get("", {}) | placed.extras.get(one.name.removeprefix(prefix), {})
        if not found:
            label = table()[key]["label"]
            found = [Found(part, prefix, label, "java", placed.settings(part, ""), bare=True) for part in placed.shared]
        return [one for one in found if self._complete(key, one, found)]

    def _place(
        self, key: str, entry: Entry, rule: dict[str, Any], channel: str, placed: _Placed, variables: bool
    ) -> None:
        """Add an entry to what its rule is for."""
        if channel:
            placed.own.setdefault((rule["to"][0], channel), [])
        rest = entry.path[len(rule["at"].split(".")) if rule["at"] else 0 :]
        name = self._name(key, rule, entry, rest, variables)
        if name.startswith("="):
            placed.extras.setdefault(channel, {})[name[1:]] = setting_of(entry)
        elif name:
            setting = setting_of(entry, _spring_value(name, entry.value) if rule.get("names") else None)
            row = (rule.get("rank", 0), name, setting)
            if len(rule["to"]) == 1:
                placed.own.setdefault((rule["to"][0], channel), []).append(row)
            for part in rule["to"] if len(rule["to"]) > 1 else ():
                if name in known(f"java-{part}") or name not in client_names():
                    placed.shared.setdefault(part, []).append(row)

    def _connector(self, entries: list[Entry]) -> Part | None:
        """Return the client of a connector: a sink has topics that it reads. None for a worker."""
        given = {entry.name: entry for entry in entries}
        if (named := given.get("connector.class")) is None:
            return None
        kind = named.value.rpartition(".")[2]
        if kind.startswith("Mirror"):
            self.problems.refused.append(
                f"{named.origin}: a connector of MirrorMaker reads one cluster and writes another one, which is not "
                "read; give the settings of its clients as properties"
            )
        sink = "Sink" in kind or (bool({"topics", "topics.regex"} & given.keys()) and "Source" not in kind)
        part: Role = "consumer" if sink else "producer"
        self.problems.notes.append(
            f"{named.origin}: a connector; where it says nothing, {part}. settings of its worker count, which are not "
            f"in this file: give the worker's file first, and this one with --{part}-properties"
        )
        return part

    def _hint(self, key: str) -> str:
        return {"spring": "spring.kafka.….", "connect": "producer. or consumer. with "}.get(key, "")

    def _name(self, key: str, rule: dict[str, Any], entry: Entry, rest: tuple[str, ...], variables: bool) -> str:
        """Return Kafka's name; one of the framework begins with `=`; empty if no promise depends on it."""
        name, names = ".".join(rest), rule.get("names")
        change = squash if variables else _loose if table()[key].get("relaxed") else str
        if names and (hit := {change(own): kafka for own, kafka in names.items()}.get(change(name))):
            return str(hit)
        kafkas = name in client_names() and rule["to"] and (not names or rule.get("kafka"))
        if not name or (not kafkas and _is_ignored(rule, change(name), change)):
            return ""
        if key == "connect" and not rule["at"]:
            return self._of_worker(entry, name)
        if not rule["to"]:
            return ""
        if names and not rule.get("kafka"):
            choices = {f"{rule['at']}.{one}": one for one in [*names, *rule.get("ignored", [])]}
            near = get_close_matches(entry.name.lower(), choices, 1, 0.9)
            if near or (near := [may] if (may := may_matter(entry.path)) else []):
                hint = near[0] if near[0] in choices else f"{rule['at']}.properties.{near[0]}"
                self.refuse(entry, entry.name, hint)
            return ""
        return name

    def _of_worker(self, entry: Entry, name: str) -> str:
        """Refuse a setting of a client that a worker does not hand to its clients."""
        group = {
            "session.timeout.ms",
            "heartbeat.interval.ms",
            "request.timeout.ms",
            "retry.backoff.ms",
            "group.protocol",
        }
        for role in CLIENTS:
            if name in READ[role] - group:
                self.refuse(entry, f"{name} of a worker, which its connectors do not get,", f"{role}.{name}")
                return ""
        if name not in client_names() and not name.startswith(("transforms", "predicates")):
            self.check_foreign([entry], self._hint("connect"))
        return ""

    def _complete(self, key: str, one: Found, every: list[Found]) -> bool:
        """Add what the framework sets itself, and when it commits; return whether the client is Kafka's."""
        connector = one.extras.get("connector")
        if connector is not None and connector.value != "smallrye-kafka":
            if "kafka" in connector.value:
                self.problems.refused.append(f"{connector.origin}: {connector.name}={connector.value} is not read")
            return False
        for name, value in table()[key]["sets"].get(one.part, {}).items():
            one.settings.setdefault(name, _own(one, name, as_text(value)))
        {"spring": self._spring, "quarkus": self._smallrye, "streams": self._streams, "connect": self._connect}[key](
            one, every
        )
        return True

    def _spring(self, one: Found, every: list[Found]) -> None:
        if one.part != "consumer":
            return
        mode = one.extras.get("ack-mode") or Setting("ack-mode", "BATCH", f"default of {one.label}", given=False)
        kind = mode.value.upper().replace("-", "_")
        kind = {"MANUALIMMEDIATE": "MANUAL_IMMEDIATE", "COUNTTIME": "COUNT_TIME"}.get(kind, kind)
        automatic = one.settings["enable.auto.commit"]
        if PLACEHOLDER.search(mode.value):
            self.problems.refused.append(
                f"{mode.origin}: {mode.name} has a placeholder, and the promise depends on its value; fill it in"
            )
        elif kind not in ("RECORD", "BATCH", "TIME", "COUNT", "COUNT_TIME", "MANUAL", "MANUAL_IMMEDIATE"):
            valid = "record, batch, time, count, count_time, manual, manual_immediate"
            self.problems.refused.append(f"{mode.origin}: {mode.name} is {mode.value!r}; the values are {valid}")
        elif automatic.value.lower() == "true":
            if kind.startswith("MANUAL"):
                self.problems.refused.append(
                    f"{mode.origin}: {mode.name}={mode.shown} contradicts {automatic.name}={automatic.shown} "
                    f"({automatic.origin}): the listener container does not start; set enable-auto-commit to false"
                )
        elif kind.startswith("MANUAL"):
            self.problems.notes.append(
                f"{mode.origin}: with {mode.name}={mode.shown} the application commits by acknowledge(); say when with "
                "--commit (after_processing, if it calls it at the end of the listener)"
            )
        else:
            transactional = any(other.settings.get("transactional.id") for other in every if other.part == "producer")
            one.commit = mode.meaning("in_transaction" if transactional else "after_processing")
            self.problems.notes.append(
                "Spring's default error handler skips a record after ten failed attempts, and its offset is committed; "
                "settings do not say whether the application has another one"
            )

    def _smallrye(self, one: Found, every: list[Found]) -> None:
        if one.part != "consumer":
            return
        automatic = one.settings["enable.auto.commit"].value.lower() == "true"
        usual = Setting(
            "commit-strategy", "ignore" if automatic else "throttled", f"default of {one.label}", given=False
        )
        strategy = one.extras.get("commit-strategy") or usual
        meanings = {"throttled": "after_processing", "latest": "after_processing", "checkpoint": "on_checkpoint"}
        if strategy.value in meanings and not automatic:
            one.commit = strategy.meaning(meanings[strategy.value])
            if strategy.value == "latest":
                self.problems.notes.append(
                    f"{strategy.origin}: {strategy.name}=latest commits an acknowledged record although earlier ones "
                    "may still be in process; a crash then leaves those out, if the channel processes several at once"
                )
        elif strategy.value == "ignore" and not automatic:
            one.commit = strategy.meaning("never")
        elif strategy.value not in (*meanings, "ignore"):
            valid = ", ".join((*meanings, "ignore"))
            self.problems.refused.append(
                f"{strategy.origin}: {strategy.name} is {strategy.value!r}; the values are {valid}"
            )
        failure = one.extras.get("failure-strategy")
        if failure is not None and failure.value != "fail":
            self.problems.notes.append(
                f"{failure.origin}: {failure.name}={failure.value}: a record that fails is left out"
            )

    def _streams(self, one: Found, every: list[Found]) -> None:
        guarantee = one.extras.get("guarantee") or Setting(
            "processing.guarantee", "at_least_once", f"default of {one.label}", given=False
        )
        once = guarantee.value in ("exactly_once_v2", "exactly_once", "exactly_once_beta")
        if not once and guarantee.value != "at_least_once":
            self.problems.refused.append(
                f"{guarantee.origin}: {guarantee.name} is {guarantee.value!r}; the values are at_least_once, "
                "exactly_once_v2"
            )
        if guarantee.value in ("exactly_once", "exactly_once_beta"):
            self.problems.notes.append(
                f"{guarantee.origin}: {guarantee.name}={guarantee.value}: Kafka Streams 4.0 and later does not start "
                "with it (KIP-732); write exactly_once_v2"
            )
        forced: dict[str, str] = {"enable.auto.commit": "false"} if one.part == "consumer" else {}
        if once:
            forced |= (
                {"isolation.level": "read_committed"} if one.part == "consumer" else {"enable.idempotence": "true"}
            )
        if once and one.part == "producer":
            one.settings["transactional.id"] = _own(one, "transactional.id", "set by Kafka Streams")
            for name, value in {"transaction.timeout.ms": "10000", "delivery.timeout.ms": "2147483647"}.items():
                one.settings.setdefault(name, _own(one, name, value))
        for name, value in forced.items():
            given = one.settings.get(name)
            if given is not None and given.value != value:
                self.problems.notes.append(
                    f"{given.origin}: {given.name} has no effect; {one.label} sets {name}={value}"
                )
            one.settings[name] = _own(one, name, value)
        if one.part == "consumer":
            one.commit = guarantee.meaning("in_transaction" if once else "after_processing")
        replicas = one.extras.get("replicas")
        if replicas is not None and replicas.value == "1" and one.part == "producer":
            self.problems.notes.append(
                f"{replicas.origin}: {replicas.name}=1: changelog and repartition topics have one replica, so the loss "
                "of a broker takes the state of the application"
            )

    def _connect(self, one: Found, every: list[Found]) -> None:
        once, replicas = one.extras.get("exactly-once"), one.extras.get("offsets-replicas")
        if one.part == "consumer":
            if one.settings["enable.auto.commit"].value.lower() != "true":
                one.commit = Setting("commit", "after_processing", f"what {one.label} does in sinks", given=False)
            tolerance = one.extras.get("tolerance")
            if tolerance is not None and tolerance.value.lower() == "all":
                self.problems.notes.append(
                    f"{tolerance.origin}: {tolerance.name}={tolerance.shown}: a record that fails is left out, and its "
                    "offset is committed"
                )
        elif once is not None and once.value.lower() in ("enabled", "required"):
            for name, value in {"enable.idempotence": "true", "transactional.id": "set by Kafka Connect"}.items():
                one.settings[name] = Setting(name, value, f"set by {once.name}={once.shown}, {once.origin}")
        if replicas is not None and replicas.value == "1" and one.part == "producer":
            self.problems.notes.append(
                f"{replicas.origin}: {replicas.name}=1: the loss of a broker takes the positions of source connectors, "
                "which then read their sources again or leave records out"
            )


def _own(one: Found, name: str, value: str) -> Setting:
    """Return a setting that the framework gives to the client, as if the user had."""
    return Setting(name, value, f"default of {one.label}")


def is_framework(given: Setting) -> bool:
    """Return whether a framework gives a setting where its file says nothing."""
    return given.origin.startswith("default of ")


def rule_of(dialect: dict[str, Any], path: tuple[str, ...]) -> tuple[dict[str, Any] | None, str]:
    """Return the rule of the table with the longest beginning of a name, and the channel in it."""
    change: Callable[[str], str] = _loose if dialect.get("relaxed") else str
    best: dict[str, Any] | None = None
    channel = ""
    for rule in dialect["rules"]:
        at = rule["at"].split(".") if rule["at"] else []
        if len(path) < len(at) + (1 if at else 0):
            continue
        longer = best is None or len(at) > len(best["at"].split(".") if best["at"] else [])
        if longer and all(
            own in ("*", part) or change(own) == change(part) for own, part in zip(at, path, strict=False)
        ):
            best, channel = rule, path[at.index("*")] if "*" in at else ""
    return best, channel


def _is_ignored(rule: dict[str, Any], name: str, change: Callable[[str], str]) -> bool:
    for own in rule.get("ignored", []):
        names = table()["lists"][own[1:]].split() if own.startswith("@") else [own]
        for one in map(change, names):
            if name == one or name.startswith(one if one.endswith(".") else f"{one}."):
                return True
            if own.startswith("@") and name.startswith(f"{one}-"):
                return True
            if change is squash and name.startswith(one):
                return True
    return False


def _spring_value(name: str, value: str) -> str:
    """Return a value of a named property of Spring as the client gets it."""
    if name == "enable.auto.commit":
        return {"on": "true", "yes": "true", "1": "true", "off": "false", "no": "false", "0": "false"}.get(
            value.lower(), value.lower()
        )
    if name == "isolation.level":
        lower = value.lower().replace("-", "_")
        return {"readcommitted": "read_committed", "readuncommitted": "read_uncommitted"}.get(lower, lower)
    if name.endswith(".ms") and value[-1:].isalpha():
        try:
            return str(round(parse_duration(value) * 1000))
        except ValueError:
            return value
    return value
