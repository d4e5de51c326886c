"""What the names in a settings file mean: the dialects of frameworks, images and operators.

`dialects.yaml` says which dialect has which names, and what its framework sets itself. Here are the rules that a table
cannot say: when a framework commits, which profile counts, and which section of a file is a producer. What is not
understood is refused, never answered by defaults: a name that may set something on which a promise depends, with the
nearest name, and a file in which nothing is understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from chaos.errors import UsageError
from chaos.kafka.settings import as_text
from chaos.promise.client_settings import READ
from chaos.promise.cluster_facts import BROKER_SETTINGS
from chaos.promise.forms import Entry, Text, open_text, split
from chaos.promise.names import ALIASES, Role, known
from chaos.promise.problems import Problems
from chaos.promise.settings import Setting, Settings
from chaos.promise.values import PLACEHOLDER
from chaos.units import parse_duration

Part = Literal["producer", "consumer", "topic", "cluster"]
CLIENTS: tuple[Role, Role] = ("producer", "consumer")
PARTS: tuple[Part, ...] = (*CLIENTS, "topic", "cluster")

_DEFAULT_PROFILE = "default"
_IGNORED_SECTIONS = ("logging", "serilog", "nlog", "connectionstrings", "allowedhosts")
_GENERIC = frozenset({"retries", "partitioner"})
"""Settings with names that other software has too; only below a section of Kafka they may be Kafka's."""
_ENV_NAME = re.compile(r"[A-Z][A-Za-z0-9]*(_+[A-Za-z0-9]+)+|[A-Z][A-Z0-9]+")
_PASCAL = re.compile(r"(?=.*[a-z])([A-Z][a-z0-9]*)+")
_PYTHON_OR_GO = re.compile(r"(go\.[a-z.]+|[a-z_]+_cb|dotnet\.[a-z.]+)")
_DOTNET_OWN = ("enablebackgroundpoll", "enabledeliveryreports", "deliveryreportfields", "consumeresultfields")


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


@dataclass
class SettingsFile:
    """A settings file. plain: it has Kafka's names, for one client, topic or broker; else `parts` are what it has."""

    text: Text
    plain: bool
    parts: list[Found] = field(default_factory=list)

    def names(self) -> set[str]:
        """Return the names of a plain file."""
        if self.text.form == "properties":
            return self.text.names()
        return {entry.name for entry in self.text.entries([])}

    def read(self, java: bool, notes: list[str]) -> Settings:
        """Return the settings of a plain file. Raises `UsageError` if there are none."""
        found = {
            entry.name: Setting(entry.name, entry.value, entry.origin, written=_written(entry))
            for entry in self.text.entries(notes, java)
        }
        if not found:
            raise UsageError(f"{self.text.label} has no settings; write lines such as acks=all")
        return found

    def choose(self, part: Part, selection: Selection) -> Found | None:
        """Return the part that is chosen, or the only one; None if there is none. Raises `UsageError` to choose one."""
        found = [one for one in self.parts if one.part == part]
        chosen = [one for one in found if selection.takes(one.name)] or found
        if len({_identity(one) for one in chosen}) > 1:
            listed = "; ".join(f"{one.name or 'without a name'} ({_origin(one)})" for one in chosen)
            raise UsageError(
                f"{self.text.label} has {len(chosen)} {part}s that differ: {listed}; choose one with --select"
            )
        return chosen[0] if chosen else None


def _identity(found: Found) -> tuple[Any, ...]:
    """Return what promises may depend on, so that parts that are equal need no choice."""
    read = READ[found.part] if found.part in CLIENTS else BROKER_SETTINGS
    every = found.part == "topic"
    settings = {(name, s.value) for name, s in found.settings.items() if every or _common(found, name) in read}
    commit = found.commit.value if found.commit else ""
    return (found.runtime, frozenset(settings), commit, frozenset((n, s.value) for n, s in found.extras.items()))


def _common(found: Found, name: str) -> str:
    return ALIASES.get(found.runtime, {}).get(name, name)


def _origin(found: Found) -> str:
    return next((s.origin for s in found.settings.values() if ":" in s.origin), found.label)


def open_settings(
    option: str, path: Path, wanted: Sequence[Part], selection: Selection, problems: Problems
) -> SettingsFile:
    """Return a settings file. wanted: the parts that it is read for.

    Raises `UsageError` if it is no text, or if its dialect is not understood.
    """
    text = open_text(option, path)
    if text.form == "properties":
        names = [Entry(split(name), "", "", "") for name in text.names()]
        clients = any(part in CLIENTS for part in wanted)
        if not _dialect(names) and not any(map(_is_env, names)) and not (clients and _in_sections(names)):
            return SettingsFile(text, plain=True)
    notes: list[str] = []
    entries = text.entries(notes)
    problems.notes += notes
    if not entries:
        raise UsageError(f"{text.label} has no settings; write lines such as acks=all")
    reader = _Reader(text, selection, problems)
    if (parts := reader.parts(entries)) is None:
        return SettingsFile(text, plain=True)
    problems.raise_refused()
    if len(wanted) > 1 and parts and all(part.bare for part in parts):
        raise UsageError(
            f"{text.label} has no setting of a producer or consumer alone; --producer-properties or --consumer-properties "
            f"reads it as one with the defaults of {parts[0].label}"
        )
    if not parts:
        raise UsageError(
            f"{text.label}: nothing in it is understood as a setting of Kafka; understood are properties of clients, "
            "topics and brokers, Spring, Quarkus, Kafka Connect and Streams, .NET (appsettings.json), JSON of librdkafka, "
            "variables of Kafka's images, Strimzi's resources, and an app.yaml"
        )
    return SettingsFile(text, plain=False, parts=parts)


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("dialects.yaml").read_text(encoding="utf-8"))
    return found


def _squash(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _client_names() -> frozenset[str]:
    return frozenset().union(*(known(f"{library}-{role}") for library in ("java", "librdkafka") for role in CLIENTS))


@cache
def _dotnet() -> dict[str, str]:
    """Return librdkafka's names by the names of .NET without dots, in lower case."""
    return {_squash(name): name for role in CLIENTS for name in sorted(known(f"librdkafka-{role}"))}


@cache
def _mattering() -> dict[str, str]:
    """Return the names on which promises depend, by their letters."""
    names = {*READ["producer"], *READ["consumer"], *ALIASES["confluent"]} - {"Producer.Partitioner"}
    return {_squash(name): name for name in sorted(names)}


def _is_env(entry: Entry) -> bool:
    return len(entry.path) == 1 and bool(_ENV_NAME.fullmatch(entry.path[0]))


def _written(entry: Entry) -> str:
    return entry.written if entry.written != entry.value else ""


def _setting(entry: Entry, value: str | None = None, separator: str = ".") -> Setting:
    value = entry.value if value is None else value
    return Setting(
        separator.join(entry.path), value, entry.origin, written=entry.written if entry.written != value else ""
    )


def _loose(part: str) -> str:
    return part.lower().replace("-", "").replace("_", "")


def _begins(path: Sequence[str], sign: str, relaxed: bool = False) -> bool:
    change: Callable[[str], str] = _loose if relaxed else str
    own = sign.split(".") if sign else []
    return [change(part) for part in path[: len(own)]] == [change(part) for part in own]


def _without_profile(path: tuple[str, ...]) -> tuple[str, ...]:
    return path[1:] if path and path[0].startswith("%") else path


def _dialect(entries: Iterable[Entry]) -> str:
    """Return the dialect that names are a sign of; empty if none is."""
    paths = [_without_profile(entry.path) for entry in entries]
    for key in ("spring", "quarkus", "streams", "connect"):
        own = _table()[key]
        if any(_begins(path, sign, own.get("relaxed", False)) for path in paths for sign in own["signs"]):
            return key
    return ""


def _is_kafkas(section: Sequence[str]) -> bool:
    """Return whether the name of a section says that it is Kafka's."""
    return any(word in _squash(part) for part in section for word in ("kafka", "producer", "consumer", "confluent"))


def _in_sections(entries: Iterable[Entry]) -> bool:
    """Return whether names such as `producer.acks` are below a section."""
    names = (".".join(entry.path) for entry in entries)
    every = _client_names() | known("broker") | known("topic")
    return any(name not in every and (found := _tail(split(name))) and _is_kafkas(found[0]) for name in names)


def _tail(path: tuple[str, ...]) -> tuple[tuple[str, ...], str, bool] | None:
    """Return section, name in librdkafka or Java, and whether the name is one of .NET; None if there is no such name."""
    for start in range(len(path)):
        name = ".".join(path[start:])
        if name in _client_names() or _PYTHON_OR_GO.fullmatch(name):
            return path[:start], name, False
    if path and _PASCAL.fullmatch(path[-1]) and _squash(path[-1]) in _dotnet():
        return path[:-1], _dotnet()[_squash(path[-1])], True
    return None


def _may_matter(path: Sequence[str]) -> str:
    """Return the setting that a name outside of every dialect may be; empty if no promise depends on it."""
    if _squash(path[0]) in _IGNORED_SECTIONS:
        return ""
    kafkas = _is_kafkas(path)
    for start in range(len(path) - 1, max(-1, len(path) - 8), -1):
        letters = _squash("".join(path[start:]))
        if letters in _mattering():
            name = _mattering()[letters]
            distinctive = name not in _GENERIC and not name.endswith("timeout.ms") and name != "retry.backoff.ms"
            return name if kafkas or distinctive else ""
        if kafkas and len(letters) > 3 and (near := get_close_matches(letters, _mattering(), 1, 0.85)):
            return _mattering()[near[0]]
    return ""


class _Reader:
    """A reader of the entries of one file."""

    def __init__(self, text: Text, selection: Selection, problems: Problems) -> None:
        self.text, self.selection, self.problems = text, selection, problems

    def parts(self, entries: list[Entry]) -> list[Found] | None:
        """Return the parts; None for a plain file."""
        names = {entry.name for entry in entries}
        if {"apiVersion", "kind"} <= names:
            return self._resources(entries)
        if any(entry.path[0] == "services" and len(entry.path) > 2 for entry in entries):
            return self._compose(entries)
        variables = [entry for entry in entries if _is_env(entry)]
        rest = [entry for entry in entries if not _is_env(entry)]
        found = self._variables(variables, "")
        parts = rest
        if self.text.form == "json":  # its keys are whole names
            parts = [replace(entry, path=tuple(one for part in entry.path for one in split(part))) for entry in rest]
        if any(_begins(entry.path, "config.connector.class") for entry in parts):  # as the REST API of Connect has it
            parts = [replace(entry, path=entry.path[1:]) for entry in parts if entry.path[0] == "config"]
        if key := _dialect(parts):
            return found + self._apply(key, self._of_profile(key, parts))
        sections = self._sections(rest, root_is_plain=not variables)
        return None if sections is None else found + sections

    def _refuse(self, entry: Entry, name: str, near: str = "") -> None:
        hint = f"; did you mean {near}?" if near else ""
        self.problems.refused.append(f"{entry.origin}: {name} is not understood, and a promise may depend on it{hint}")

    def _check_foreign(self, entries: Iterable[Entry], hint: str = "") -> None:
        for entry in entries:
            if near := _may_matter(entry.path):
                self._refuse(entry, entry.name, f"{hint}{near}")

    # profiles

    def _of_profile(self, key: str, entries: list[Entry]) -> list[Entry]:
        """Return the entries that count: those of no profile, then those of the profiles that are active."""
        signs = ("spring.config.activate.on-profile", "spring.profiles")
        profiles = dict[int, str]()
        for entry in entries if key == "spring" else ():
            if any(len(entry.path) == len(s.split(".")) and _begins(entry.path, s, True) for s in signs):
                profiles[entry.document] = entry.value
        tagged: list[tuple[str, Entry]] = []
        for entry in entries:
            own = entry.path[0][1:] if entry.path[0].startswith("%") else profiles.get(entry.document, "")
            tagged.append((own, replace(entry, path=_without_profile(entry.path))))
        for entry in entries:
            if _begins(entry.path, "spring.config.import", True):
                self.problems.notes.append(f"{entry.origin}: {entry.name} names other settings, which are not read")
        named = dict.fromkeys(own for own, _ in tagged if own)
        active = [own for own in named if any([self.selection.takes(one.strip()) for one in own.split(",")])]
        if not active and named and not self.selection.takes(_DEFAULT_PROFILE):
            active = self._active(key, tagged, list(named))
        return [e for own, e in tagged if not own] + [e for own, e in tagged if own in active]

    def _active(self, key: str, tagged: list[tuple[str, Entry]], named: list[str]) -> list[str]:
        """Return the profiles that are active if the user chose none. One that matters has to be chosen."""
        if key == "quarkus":
            self.problems.notes.append(
                f"{self.text.path.name} has the profiles {', '.join(named)}; prod counts, as in production; --select "
                "reads another one"
            )
            return [own for own in named if "prod" in own.split(",")]
        set_active = [e.value for own, e in tagged if not own and _begins(e.path, "spring.profiles.active", True)]
        if set_active:
            chosen = [one.strip() for text in set_active for one in text.split(",")]
            return [own for own in named if set(chosen) & {one.strip() for one in own.split(",")}]
        signs = _table()[key]["signs"]
        mattering = [(own, e) for own, e in tagged if own and any(_begins(e.path, sign, True) for sign in signs)]
        if mattering:
            own, entry = mattering[0]
            self.problems.refused.append(
                f"{entry.origin}: {entry.name} is set in the profile {own}, so the answer depends on the profile; choose "
                f"one with --select ({', '.join(named)}, or {_DEFAULT_PROFILE} for none of them)"
            )
        return []

    # frameworks

    def _apply(self, key: str, entries: list[Entry], prefix: str = "", variables: bool = False) -> list[Found]:
        """Return the clients of a framework of the table."""
        dialect = _table()[key]
        shared = dict[Part, list[tuple[int, str, Setting]]]()
        own = dict[tuple[Part, str], list[tuple[int, str, Setting]]]()
        extras = dict[str, Settings]()
        for entry in entries:
            rule, channel = _rule(dialect, entry.path)
            if rule is None:
                if (not _begins(entry.path, "quarkus") and not _begins(entry.path, "spring")) or (
                    key == "spring" and _begins(entry.path, "spring.kafka")
                ):
                    self._check_foreign([entry], self._hint(key))
                continue
            if refused := rule.get("refused"):
                self.problems.refused.append(f"{entry.origin}: {entry.name}: {refused}")
                return []
            if channel:
                own.setdefault((rule["to"][0], channel), [])
            rest = entry.path[len(rule["at"].split(".")) if rule["at"] else 0 :]
            name = self._name(key, rule, entry, rest, variables)
            if name.startswith("="):
                extras.setdefault(channel, {})[name[1:]] = _setting(entry)
            elif name:
                setting = _setting(entry, _spring_value(name, entry.value) if rule.get("names") else None)
                row = (rule.get("rank", 0), name, setting)
                if len(rule["to"]) == 1:
                    own.setdefault((rule["to"][0], channel), []).append(row)
                for part in rule["to"] if len(rule["to"]) > 1 else ():
                    if name in known(f"java-{part}") or name not in _client_names():
                        shared.setdefault(part, []).append(row)
        wanted = list(own)
        if key in ("connect", "streams") and not (
            key == "connect" and any(_begins(e.path, "connector.class") for e in entries)
        ):
            wanted = [("producer", ""), ("consumer", "")]
        elif key == "spring":
            wanted += [("consumer", "")] if extras and ("consumer", "") not in own else []
        found: list[Found] = []
        for part, channel in dict.fromkeys(wanted):
            rows = sorted([*shared.get(part, []), *own.get((part, channel), [])], key=lambda row: row[0])
            one = Found(part, f"{prefix}{channel}", dialect["label"], "java", {name: s for _, name, s in rows})
            one.extras = extras.get("", {}) | extras.get(channel, {})
            found.append(one)
        if not found:
            found = [
                Found(part, prefix, dialect["label"], "java", {n: s for _, n, s in rows}, bare=True)
                for part, rows in shared.items()
            ]
        return [one for one in found if self._complete(key, one, found)]

    def _hint(self, key: str) -> str:
        return {"spring": "spring.kafka.….", "connect": "producer. or consumer. with "}.get(key, "")

    def _name(self, key: str, rule: dict[str, Any], entry: Entry, rest: tuple[str, ...], variables: bool) -> str:
        """Return Kafka's name; one of the framework begins with `=`; empty if no promise depends on it."""
        name, names = ".".join(rest), rule.get("names")
        change = _squash if variables else _loose if _table()[key].get("relaxed") else str
        if names and (hit := {change(own): kafka for own, kafka in names.items()}.get(change(name))):
            return str(hit)
        if not name or _is_ignored(rule, change(name), change):
            return ""
        if key == "connect" and not rule["at"]:
            return self._of_worker(entry, name)
        if not rule["to"]:
            return ""
        if names and not rule.get("kafka"):
            choices = {f"{rule['at']}.{one}": one for one in [*names, *rule.get("ignored", [])]}
            near = get_close_matches(entry.name.lower(), choices, 1, 0.9)
            if near or (near := [may] if (may := _may_matter(entry.path)) else []):
                hint = near[0] if near[0] in choices else f"{rule['at']}.properties.{near[0]}"
                self._refuse(entry, entry.name, hint)
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
                self._refuse(entry, f"{name} of a worker, which its connectors do not get,", f"{role}.{name}")
                return ""
        if name not in _client_names() and not name.startswith(("transforms", "predicates")):
            self._check_foreign([entry], self._hint("connect"))
        return ""

    def _complete(self, key: str, one: Found, every: list[Found]) -> bool:
        """Add what the framework sets itself, and when it commits; return whether the client is Kafka's."""
        connector = one.extras.get("connector")
        if connector is not None and not connector.value.endswith("kafka"):
            return False
        for name, value in _table()[key]["sets"].get(one.part, {}).items():
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
                    f"{strategy.origin}: {strategy.name}=latest commits an acknowledged record although earlier ones may "
                    "still be in process; a crash then leaves those out, if the channel processes several at once"
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
                f"{guarantee.origin}: {guarantee.name} is {guarantee.value!r}; the values are at_least_once, exactly_once_v2"
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
                f"{replicas.origin}: {replicas.name}=1: changelog and repartition topics have one replica, so the loss of "
                "a broker takes the state of the application"
            )

    def _connect(self, one: Found, every: list[Found]) -> None:
        once, replicas = one.extras.get("exactly-once"), one.extras.get("offsets-replicas")
        if one.part == "consumer":
            if one.settings["enable.auto.commit"].value.lower() != "true":
                one.commit = Setting("commit", "after_processing", f"what {one.label} does in sinks", given=False)
        elif once is not None and once.value.lower() == "enabled":
            for name, value in {"enable.idempotence": "true", "transactional.id": "set by Kafka Connect"}.items():
                one.settings[name] = Setting(name, value, f"set by {once.name}={once.shown}, {once.origin}")
        if replicas is not None and replicas.value == "1" and one.part == "producer":
            self.problems.notes.append(
                f"{replicas.origin}: {replicas.name}=1: the loss of a broker takes the positions of source connectors, "
                "which then read their sources again or leave records out"
            )

    # sections

    def _sections(self, entries: list[Entry], root_is_plain: bool) -> list[Found] | None:
        """Return the clients of nested settings, such as appsettings.json; None for plain names without sections."""
        found = dict[tuple[str, ...], list[tuple[Entry, str, bool]]]()
        unknown: list[Entry] = []
        for entry in entries:
            path = (
                tuple(part for name in entry.path for part in name.split(":"))
                if self.text.form == "json"
                else entry.path
            )
            name = ".".join(path)
            plain = name in known("broker") | known("topic") and name not in _client_names()
            tail = ((), name, False) if plain else _tail(path)
            if tail is None or _squash(path[0]) == "spring":
                unknown.append(entry)
            elif path[0].lower() not in _IGNORED_SECTIONS:
                found.setdefault(tail[0], []).append((replace(entry, path=path), tail[1], tail[2]))
        real = {section: rows for section, rows in found.items() if _is_client(section, rows)}
        if root_is_plain and (set(real) == {()} or not real) and not any(map(self._is_dotnet, real.values())):
            flat = all(len(split(entry.name)) == len(entry.path) for entry in entries)
            if flat and (real or self.text.form == "properties" or any(e.path[0].islower() for e in entries)) and real:
                return None
        for entry in unknown:
            self._check_unknown(entry, list(real))
        for section, rows in found.items():
            if section not in real:
                self._check_foreign(entry for entry, *_ in rows)
        return [one for section, rows in real.items() for one in self._section(section, rows)]

    def _check_unknown(self, entry: Entry, sections: list[tuple[str, ...]]) -> None:
        """Refuse a name that may be a misspelt setting of a client."""
        name = entry.path[-1]
        if any(entry.path[: len(section)] == section for section in sections) and _squash(name) not in _DOTNET_OWN:
            if near := get_close_matches(_squash(name), _dotnet(), 1, 0.82):
                kafka = _dotnet()[near[0]]
                own = "".join(word.capitalize() for word in re.split(r"[._]", kafka))
                pascal = _PASCAL.fullmatch(name) is not None
                self._refuse(entry, (":" if pascal else ".").join(entry.path), own if pascal else kafka)
                return
        self._check_foreign([entry])

    def _is_dotnet(self, rows: list[tuple[Entry, str, bool]]) -> bool:
        return any(dotnet for *_, dotnet in rows) or self.text.path.name.lower().startswith("appsettings")

    def _section(self, section: tuple[str, ...], rows: list[tuple[Entry, str, bool]]) -> list[Found]:
        dotnet = self._is_dotnet(rows)
        separator = ":" if dotnet else "."
        settings = {
            name: _setting(entry, _dotnet_value(name, entry.value) if dotnet else None, separator)
            for entry, name, _ in rows
        }
        label = ".NET (Confluent.Kafka)" if dotnet else ""
        roles = _roles(section, settings)
        every = {role: known(f"java-{role}") | known(f"librdkafka-{role}") for role in CLIENTS}
        found: list[Found] = []
        for role in roles:
            other = every["consumer" if role == "producer" else "producer"]
            own = {n: s for n, s in settings.items() if len(roles) == 1 or n in every[role] or n not in other}
            found.append(Found(role, separator.join(section), label, "confluent" if dotnet else "", own))
        return found

    # variables of images

    def _variables(self, entries: list[Entry], service: str, image: str = "") -> list[Found]:
        """Return the parts that environment variables set: of a broker, a worker, or an application with Spring."""
        images, prefix = _table()["images"], f"{service}" if service else ""
        spring: list[Entry] = []
        nested: list[Entry] = []
        decoded: dict[str, list[tuple[Entry, str]]] = {"cluster": [], "connect": []}
        for entry in entries:
            name = entry.path[0]
            start = max((p for p in images["prefixes"] if name.startswith(p)), key=len, default="")
            if name.startswith(("SPRING_KAFKA_", "SPRING_CLOUD_STREAM_")):
                spring.append(replace(entry, path=tuple(name.lower().split("_"))))
            elif "__" in name and not name.isupper():
                nested.append(replace(entry, path=tuple(name.split("__"))))
            elif start:
                decoded[images["prefixes"][start]].append((entry, _decode(name.removeprefix(start))))
            elif (
                name.startswith(("MP_MESSAGING_", "_DEV_", "_PROD_"))
                or "spring.kafka" in entry.value
                or (name == "SPRING_APPLICATION_JSON" and "kafka" in entry.value)
            ):
                self._refuse(entry, name)
            elif near := _may_matter(name.split("_")):
                self._refuse(entry, name, near)
        found = self._broker(decoded["cluster"], prefix, image)
        if decoded["connect"]:
            worker = [replace(entry, path=split(name)) for entry, name in decoded["connect"]]
            found += _renamed(self._apply("connect", worker, prefix), decoded["connect"])
        if spring:
            names = [(entry, ".".join(entry.path)) for entry in spring]
            upper = [(replace(e, path=("_".join(e.path).upper(),)), name) for e, name in names]
            found += _renamed(self._apply("spring", spring, prefix, variables=True), upper)
        found += [
            replace(one, name=f"{prefix}:{one.name}" if prefix else one.name)
            for one in self._sections(nested, False) or []
        ]
        return found

    def _broker(self, rows: list[tuple[Entry, str]], service: str, image: str) -> list[Found]:
        """Return the broker that variables with the prefix KAFKA_ set, if any of them is a setting of a broker."""
        own = re.compile("|".join(f"{name}(_|$)" for name in _table()["images"]["own"].split()))
        settings: Settings = {}
        refused: list[tuple[Entry, str, str]] = []
        for entry, name in rows:
            short = re.sub(r"^KAFKA_(CFG_)?", "", entry.path[0])
            if name in known("broker") or name.startswith("listener.name."):
                settings[name] = _setting(entry)
            elif own.match(short):
                continue
            elif name in READ["producer"] | READ["consumer"]:
                refused.append((entry, f"a broker has no {name}, and an application may read", ""))
            elif name in _client_names() or name in known("topic"):
                self.problems.notes.append(
                    f"{entry.origin}: {entry.name} has no effect: a broker has no setting {name}"
                )
            elif near := get_close_matches(name, known("broker"), 1, 0.85):
                refused.append((entry, "", f"KAFKA_{_encode(near[0])}"))
            elif client := _may_matter(("kafka", *name.split("."))):
                refused.append((entry, "", client))
        for entry, why, hint in refused:
            self._refuse(entry, f"{entry.name} ({why} it)" if why else entry.name, hint)
        if (
            not set(settings) - _client_names()
            or settings.get("process.roles", Setting("", "", "")).value == "controller"
        ):
            return []
        found = Found("cluster", service, "variables of Kafka's images", settings=settings)
        samples = _table()["images"]["samples"]
        if any(s in image for s in samples) or any(e.path[0].startswith("KAFKA_CFG_") for e, _ in rows):
            for name, value in _table()["images"]["sample"].items():
                origin = "the server.properties in the image"
                settings.setdefault(name, Setting(name, as_text(value), origin, given=False))
        return [found]

    def _compose(self, entries: list[Entry]) -> list[Found]:
        """Return what the services of a compose file are, by their environments."""
        services = dict[str, list[Entry]]()
        images = dict[str, str]()
        for entry in entries:
            if entry.path[0] != "services" or len(entry.path) < 3:
                continue
            service, key = entry.path[1], entry.path[2]
            if key == "image":
                images[service] = entry.value
            elif key == "env_file" and "kafka" in f"{service} {images.get(service, '')}".lower():
                self.problems.refused.append(
                    f"{entry.origin}: the environment of {service} is in {entry.value}; give that file instead"
                )
            elif key == "environment" and len(entry.path) > 3:
                pair = entry.path[3].isdigit()
                name, _, value = entry.value.partition("=") if pair else (".".join(entry.path[3:]), "", entry.value)
                written = value if pair else entry.written
                services.setdefault(service, []).append(replace(entry, path=(name,), value=value, written=written))
        found: list[Found] = []
        for service, variables in services.items():
            dotted = [replace(e, path=split(e.path[0])) for e in variables if "." in e.path[0]]
            found += self._variables([e for e in variables if "." not in e.path[0]], service, images.get(service, ""))
            if key := _dialect(dotted):
                found += self._apply(key, dotted, service)
        return found

    def _resources(self, entries: list[Entry]) -> list[Found]:
        """Return what the resources of Kubernetes are, each in its document."""
        found: list[Found] = []
        cluster: Found | None = None
        for document in dict.fromkeys(entry.document for entry in entries):
            own = [entry for entry in entries if entry.document == document]
            values = {entry.name: entry.value for entry in own}
            kind, name = values.get("kind", ""), values.get("metadata.name", "")
            label = f"Strimzi's {kind}"
            if kind in ("KafkaConnect", "KafkaConnector"):
                worker = [replace(entry, path=entry.path[2:]) for entry in own if entry.path[:2] == ("spec", "config")]
                found += self._apply("connect", worker, name)
            elif kind in _table()["kinds"]:
                parts = self._resource(own, kind, name, label)
                for one in parts:
                    if one.part == "cluster" and cluster is not None:
                        cluster.settings |= one.settings
                        cluster.extras |= {
                            n: s for n, s in one.extras.items() if "broker" in (_roles_of(one) or "broker")
                        }
                    elif one.part == "cluster" and "broker" in (_roles_of(one) or "broker"):
                        cluster = one
                        found.append(one)
                    elif one.part != "cluster":
                        found.append(one)
            elif kind.startswith("KafkaMirrorMaker"):
                self.problems.refused.append(f"{own[0].origin}: {kind} is not read; give the settings of its clients")
            else:
                found += self._containers(own, name or kind)
        return found

    def _resource(self, own: list[Entry], kind: str, name: str, label: str) -> list[Found]:
        parts = dict[Part, Found]()
        for entry in own:
            rule, _ = _rule({"rules": _table()["kinds"][kind]}, entry.path)
            if rule is None:
                continue
            part: Part = rule["to"][0]
            client = part in CLIENTS
            one = parts.setdefault(part, Found(part, name, label, "java" if client else ""))
            rest = ".".join(entry.path[len(rule["at"].split(".")) :])
            if "names" not in rule:
                one.settings[rest] = replace(_setting(entry), name=rest)
            elif extra := rule["names"].get(rest):
                one.extras[extra[1:]] = replace(_setting(entry), name=rest)
            elif near := get_close_matches(rest, rule["names"], 1, 0.75):
                self._refuse(entry, entry.name, near[0])
        if kind == "KafkaTopic":
            parts.setdefault("topic", Found("topic", name, label))
        return list(parts.values())

    def _containers(self, own: list[Entry], name: str) -> list[Found]:
        """Return what the variables of containers set."""
        pairs = dict[tuple[str, ...], dict[str, Entry]]()
        found: list[Found] = []
        for entry in own:
            if len(entry.path) > 2 and "env" in entry.path and entry.path[-1] in ("name", "value"):
                pairs.setdefault(entry.path[:-1], {})[entry.path[-1]] = entry
            elif entry.path[0] == "data" and "kafka" in f"{entry.name}{entry.value}".lower() and "\n" in entry.value:
                self.problems.refused.append(
                    f"{entry.origin}: {entry.name} is a file inside a resource, which is not read; give the file itself"
                )
        variables = [
            replace(pair["value"], path=(pair["name"].value,))
            for pair in pairs.values()
            if {"name", "value"} <= pair.keys()
        ]
        variables += [
            replace(e, path=e.path[1:]) for e in own if e.path[0] == "data" and _is_env(replace(e, path=e.path[1:]))
        ]
        found += self._variables(variables, name)
        return found


def _roles_of(found: Found) -> str:
    return found.extras["roles"].value if "roles" in found.extras else ""


def _own(one: Found, name: str, value: str) -> Setting:
    """Return a setting that the framework gives to the client, as if the user had."""
    return Setting(name, value, f"default of {one.label}")


def _rule(dialect: dict[str, Any], path: tuple[str, ...]) -> tuple[dict[str, Any] | None, str]:
    """Return the rule of the table with the longest beginning of a name, and the channel in it."""
    change: Callable[[str], str] = _loose if dialect.get("relaxed") else str
    best: dict[str, Any] | None = None
    channel = ""
    for rule in dialect["rules"]:
        at = rule["at"].split(".") if rule["at"] else []
        if len(path) < len(at) + (1 if at else 0):
            continue
        if all(own in ("*", part) or change(own) == change(part) for own, part in zip(at, path, strict=False)):
            if best is None or len(at) > len(best["at"].split(".") if best["at"] else []):
                best = rule
                channel = path[at.index("*")] if "*" in at else ""
    return best, channel


def _is_ignored(rule: dict[str, Any], name: str, change: Callable[[str], str]) -> bool:
    for own in rule.get("ignored", []):
        names = _table()["lists"][own[1:]].split() if own.startswith("@") else [own]
        for one in map(change, names):
            if name == one or name.startswith(one if one.endswith(".") else f"{one}."):
                return True
            if own.startswith("@") and name.startswith(f"{one}-"):
                return True
            if change is _squash and name.startswith(one):
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


_DOTNET_VALUES = {
    "acks": {"leader": "1", "none": "0", "all": "all"},
    "isolation.level": {"readcommitted": "read_committed", "readuncommitted": "read_uncommitted"},
    "partitioner": {
        "consistentrandom": "consistent_random",
        "murmur2random": "murmur2_random",
        "fnv1arandom": "fnv1a_random",
    },
}
"""Values of .NET's enumerations, with those of librdkafka."""


def _dotnet_value(name: str, value: str) -> str:
    name = ALIASES["confluent"].get(name, name)
    lower = value.lower()
    return _DOTNET_VALUES[name].get(lower, lower) if name in _DOTNET_VALUES else value


def _is_client(section: tuple[str, ...], rows: list[tuple[Entry, str, bool]]) -> bool:
    """Return whether a section is a client: by its name, or by a name in it that only Kafka has."""
    names = {name for _, name, _ in rows}
    role = any(_squash(part).find(r) >= 0 for part in section for r in CLIENTS)
    read = {name for name in names if ALIASES["confluent"].get(name, name) in READ["producer"] | READ["consumer"]}
    if not section:
        return True
    if role or (_is_kafkas(section) and read):
        return True
    return bool(read - _GENERIC - {"acks"}) and any("." in name for name in read)


def _roles(section: tuple[str, ...], settings: Settings) -> list[Role]:
    """Return whether a section is a producer, a consumer, or both: by its name, else by its settings."""
    for part in reversed(section):
        named = [role for role in CLIENTS if role in _squash(part)]
        if len(named) == 1:
            return list(named)
    every = {role: known(f"java-{role}") | known(f"librdkafka-{role}") for role in CLIENTS}
    own = {"producer": every["producer"] - every["consumer"], "consumer": every["consumer"] - every["producer"]}
    return [role for role in CLIENTS if settings.keys() & own[role]]


def _decode(name: str) -> str:
    """Return the setting that a variable of an image means: `_` is a dot, `__` is `_`, `___` is `-`."""
    marked = name.lower().replace("___", "\0").replace("__", "\1")
    return marked.replace("_", ".").replace("\0", "-").replace("\1", "_")


def _encode(name: str) -> str:
    return name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _renamed(parts: list[Found], rows: list[tuple[Entry, str]]) -> list[Found]:
    """Give the settings of parts the names of the variables that they come from."""
    names = {(name, entry.origin): entry.path[0] for entry, name in rows}
    for part in parts:
        for settings in (part.settings, part.extras):
            for name, s in settings.items():
                settings[name] = replace(s, name=names.get((s.name, s.origin), s.name))
    return parts
