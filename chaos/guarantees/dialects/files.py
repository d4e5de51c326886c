"""What the names in a settings file mean: the dialects of frameworks, images and operators.

`dialects.yaml` has the names, `frameworks` reads the names of frameworks. Here are files with several parts: sections
of .NET and of JSON, variables of images, compose files and resources of Kubernetes. What is not understood is refused,
and never answered by defaults: a name that may set something on which a promise depends, with the nearest name, and a
file in which nothing is understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from chaos.errors import UsageError
from chaos.guarantees.dialects.forms import Entry, Text, open_text, split
from chaos.guarantees.dialects.frameworks import (
    CLIENTS,
    GENERIC,
    IGNORED_SECTIONS,
    Found,
    FrameworkReader,
    Selection,
    begins,
    client_names,
    dialect_of,
    is_kafkas,
    may_matter,
    rule_of,
    setting_of,
    squash,
    table,
)
from chaos.guarantees.facts import BROKER_SETTINGS, READ
from chaos.guarantees.names import ALIASES, PYTHON, Part, Role, known
from chaos.guarantees.values import Problems, Setting, Settings
from chaos.kafka.settings import as_text

_ENV_NAME = re.compile(r"[A-Z][A-Za-z0-9]*(_+[A-Za-z0-9]+)+|[A-Z][A-Z0-9]+")
_PASCAL = re.compile(r"(?=.*[a-z])([A-Z][a-z0-9]*)+")
_PYTHON_OR_GO = re.compile(r"(go\.[a-z.]+|[a-z_]+_cb|dotnet\.[a-z.]+)")
_CLUSTER_NAMES = ("controller.quorum.voters", "controller.quorum.bootstrap.servers", "zookeeper.connect")
"""Settings that all brokers of a cluster have in common."""
_DOTNET_OWN = ("enablebackgroundpoll", "enabledeliveryreports", "deliveryreportfields", "consumeresultfields")


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
            listed = "; ".join(f"{one.name or 'without a name'} ({_differs(one, chosen)})" for one in chosen)
            advice = "choose one with --select" + (", or select in app.yaml" if self.text.option != "--clients" else "")
            raise UsageError(f"{self.text.label} has {len(chosen)} {part}s that differ: {listed}; {advice}")
        return chosen[0] if chosen else None


def _check_other_forms(text: Text) -> None:
    """Raise `UsageError` for a file that has lines like properties, and another form."""
    for number, line in enumerate(text.text.splitlines(), start=1):
        form = "MirrorMaker 2" if re.match(r"\s*\w+\s*->\s*\w+", line) else ""
        form = form or ("HOCON" if re.match(r"\s*[\w.\-\"]+\s*[:=]?\s*\{\s*$|\s*\}\s*,?\s*$", line) else "")
        if form:
            raise UsageError(
                f"{text.label}:{number}: the form of {form} is not read; give the settings of the client as properties"
            )


def _identity(found: Found) -> tuple[Any, ...]:
    """Return what promises may depend on, so that parts that are equal need no choice."""
    every = found.part == "topic"
    read = READ[found.part] if found.part == "producer" or found.part == "consumer" else BROKER_SETTINGS
    settings = {(name, s.value) for name, s in found.settings.items() if every or _common(found, name) in read}
    commit = found.commit.value if found.commit else ""
    return (found.runtime, frozenset(settings), commit, frozenset((n, s.value) for n, s in found.extras.items()))


def _common(found: Found, name: str) -> str:
    return ALIASES.get(found.runtime, {}).get(name, name)


def _differs(found: Found, others: Sequence[Found]) -> str:
    """Return a setting in which parts differ, with its origin in one of them; else where that one begins."""
    read = {name for one in others for part in _identity(one) if isinstance(part, frozenset) for name, _ in part}
    for name in sorted(read):
        every = [one.settings.get(name) or one.extras.get(name) for one in others]
        if len({s.value if s else "" for s in every}) > 1:
            own = found.settings.get(name) or found.extras.get(name)
            return f"{own.name}={own.shown}, {own.origin}" if own else f"no {name}"
    return next((s.origin for s in found.settings.values() if ":" in s.origin), found.label)


def open_settings(
    option: str, path: Path, wanted: Sequence[Part], selection: Selection, problems: Problems
) -> SettingsFile:
    """Return a settings file. wanted: the parts that it is read for.

    Raises `UsageError` if it is no text, or if its dialect is not understood.
    """
    text = open_text(option, path)
    if text.form == "properties":
        _check_other_forms(text)
        names = [Entry(split(name), "", "", "") for name in text.names()]
        clients = any(part in CLIENTS for part in wanted)
        if not dialect_of(names) and not any(map(_is_env, names)) and not (clients and _in_sections(names)):
            return SettingsFile(text, plain=True)
    if partial := re.fullmatch(r"(application-[\w-]+\.(?:ya?ml|properties)|appsettings\.\w+\.json)", path.name):
        problems.notes.append(
            f"{partial[1]} is read alone; what the file without a profile in its name says is unknown"
        )
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
            f"{text.label} has no setting of a producer or consumer alone; --producer-properties or "
            f"--consumer-properties reads it as one with the defaults of {parts[0].label}"
        )
    if not parts:
        raise UsageError(
            f"{text.label}: nothing in it is understood as a setting of Kafka; understood are properties of clients, "
            "topics and brokers, Spring, Quarkus, Kafka Connect and Streams, .NET (appsettings.json), JSON of "
            "librdkafka, variables of Kafka's images, Strimzi's resources, and an app.yaml"
        )
    return SettingsFile(text, plain=False, parts=parts)


@cache
def _dotnet() -> dict[str, str]:
    """Return librdkafka's names by the names of .NET without dots, in lower case."""
    return {squash(name): name for role in CLIENTS for name in sorted(known(f"librdkafka-{role}"))}


def _is_env(entry: Entry) -> bool:
    return len(entry.path) == 1 and bool(_ENV_NAME.fullmatch(entry.path[0]))


def _written(entry: Entry) -> str:
    return entry.written if entry.written != entry.value else ""


def _in_sections(entries: Iterable[Entry]) -> bool:
    """Return whether names such as `producer.acks` are below a section."""
    names = (".".join(entry.path) for entry in entries)
    every = client_names() | known("broker") | known("topic")
    return any(name not in every and (found := _tail(split(name))) and is_kafkas(found[0]) for name in names)


def _tail(path: tuple[str, ...]) -> tuple[tuple[str, ...], str, bool] | None:
    """Return section, name in librdkafka or Java, and whether the name is one of .NET; None for another name."""
    for start in range(len(path)):
        name = ".".join(path[start:])
        if name in client_names() or _PYTHON_OR_GO.fullmatch(name):
            return path[:start], name, False
    if path and _PASCAL.fullmatch(path[-1]) and squash(path[-1]) in _dotnet():
        return path[:-1], _dotnet()[squash(path[-1])], True
    return None


class _Reader(FrameworkReader):
    """A reader of the entries of one file."""

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
        if any(begins(entry.path, "config.connector.class") for entry in parts):  # as the REST API of Connect has it
            parts = [replace(entry, path=entry.path[1:]) for entry in parts if entry.path[0] == "config"]
        if key := dialect_of(parts):
            return found + self.apply(key, self.of_profile(key, parts))
        sections = self._sections(rest, root_is_plain=not variables)
        return None if sections is None else found + sections

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
            plain = name in known("broker") | known("topic") and name not in client_names()
            tail = ((), name, False) if plain else _tail(path)
            if tail is None or squash(path[0]) == "spring":
                unknown.append(entry)
            elif path[0].lower() not in IGNORED_SECTIONS:
                found.setdefault(tail[0], []).append((replace(entry, path=path), tail[1], tail[2]))
        real = {section: rows for section, rows in found.items() if _is_client(section, rows)}
        if root_is_plain and self._is_python(entries):
            return None
        if root_is_plain and (set(real) == {()} or not real) and not any(map(self._is_dotnet, real.values())):
            flat = all(len(split(entry.name)) == len(entry.path) for entry in entries)
            if flat and (real or self.text.form == "properties" or any(e.path[0].islower() for e in entries)) and real:
                return None
        for entry in unknown:
            self._check_unknown(entry, list(real))
        for section, rows in found.items():
            if section not in real:
                self.check_foreign(entry for entry, *_ in rows)
        return [one for section, rows in real.items() for one in self._section(section, rows)]

    def _is_python(self, entries: list[Entry]) -> bool:
        """Return whether kafka-python and aiokafka have these names."""
        return sum(len(entry.path) == 1 and entry.name in PYTHON for entry in entries) * 2 > len(entries)

    def _check_unknown(self, entry: Entry, sections: list[tuple[str, ...]]) -> None:
        """Refuse a name that may be a misspelt setting of a client."""
        name = entry.path[-1]
        inside = any(entry.path[: len(section)] == section for section in sections) and squash(name) not in _DOTNET_OWN
        if inside and (near := get_close_matches(squash(name), _dotnet(), 1, 0.82)):
            kafka, pascal = _dotnet()[near[0]], _PASCAL.fullmatch(name) is not None
            own = "".join(word.capitalize() for word in re.split(r"[._]", kafka))
            self.refuse(entry, (":" if pascal else ".").join(entry.path), own if pascal else kafka)
            return
        self.check_foreign([entry])

    def _is_dotnet(self, rows: list[tuple[Entry, str, bool]]) -> bool:
        return any(dotnet for *_, dotnet in rows) or self.text.path.name.lower().startswith("appsettings")

    def _section(self, section: tuple[str, ...], rows: list[tuple[Entry, str, bool]]) -> list[Found]:
        dotnet = self._is_dotnet(rows)
        separator = ":" if dotnet else "."
        settings = {
            name: setting_of(entry, _dotnet_value(name, entry.value) if dotnet else None, separator)
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
        images, prefix = table()["images"], f"{service}" if service else ""
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
                self.refuse(entry, name)
            elif near := may_matter(name.split("_")):
                self.refuse(entry, name, near)
        found = self._broker(decoded["cluster"], prefix, image)
        if decoded["connect"]:
            worker = [replace(entry, path=split(name)) for entry, name in decoded["connect"]]
            found += _renamed(self.apply("connect", worker, prefix), decoded["connect"])
        if spring:
            names = [(entry, ".".join(entry.path)) for entry in spring]
            upper = [(replace(e, path=("_".join(e.path).upper(),)), name) for e, name in names]
            found += _renamed(self.apply("spring", spring, prefix, variables=True), upper)
        found += [
            replace(one, name=f"{prefix}:{one.name}" if prefix else one.name)
            for one in self._sections(nested, False) or []
        ]
        return found

    def _broker(self, rows: list[tuple[Entry, str]], service: str, image: str) -> list[Found]:
        """Return the broker that variables with the prefix KAFKA_ set, if any of them is a setting of a broker."""
        own = re.compile("|".join(f"{name}(_|$)" for name in table()["images"]["own"].split()))
        settings: Settings = {}
        refused: list[tuple[Entry, str, str]] = []
        notes: list[str] = []
        for entry, name in rows:
            short = re.sub(r"^KAFKA_(CFG_)?", "", entry.path[0])
            if name in known("broker") or name.startswith("listener.name."):
                settings[name] = setting_of(entry)
            elif own.match(short):
                continue
            elif name in READ["producer"] | READ["consumer"]:
                refused.append((entry, f"a broker has no {name}, and an application may read", ""))
            elif name in client_names() or name in known("topic"):
                notes.append(f"{entry.origin}: {entry.name} has no effect: a broker has no setting {name}")
            elif near := get_close_matches(name, known("broker"), 1, 0.85):
                refused.append((entry, "", f"KAFKA_{_encode(near[0])}"))
            elif client := may_matter(("kafka", *name.split("."))):
                refused.append((entry, "", client))
        for entry, why, hint in refused:
            self.refuse(entry, f"{entry.name} ({why} it)" if why else entry.name, hint)
        if (
            not set(settings) - client_names()
            or settings.get("process.roles", Setting("", "", "")).value == "controller"
        ):
            return []
        self.problems.notes += notes
        found = Found("cluster", service, "variables of Kafka's images", settings=settings)
        samples = table()["images"]["samples"]
        if any(s in image for s in samples) or any(e.path[0].startswith("KAFKA_CFG_") for e, _ in rows):
            for name, value in table()["images"]["sample"].items():
                origin = "the server.properties in the image"
                settings.setdefault(name, Setting(name, as_text(value), origin, given=False))
        return [found]

    def _compose(self, entries: list[Entry]) -> list[Found]:
        """Return what the services of a compose file are, by their environments."""
        services = dict[str, list[Entry]]()
        images = dict[str, str]()
        files = dict[str, Entry]()
        for entry in entries:
            if entry.path[0] != "services" or len(entry.path) < 3:
                continue
            service, key = entry.path[1], entry.path[2]
            if key == "image":
                images[service] = entry.value
            elif key == "env_file":
                files[service] = entry
            elif key in ("command", "entrypoint") and "--override" in entry.value:
                self.refuse(entry, f"--override in {entry.name}")
            elif key == "environment" and len(entry.path) > 3:
                pair = entry.path[3].isdigit()
                name, _, value = entry.value.partition("=") if pair else (".".join(entry.path[3:]), "", entry.value)
                written = value if pair else entry.written
                services.setdefault(service, []).append(replace(entry, path=(name,), value=value, written=written))
        found: list[Found] = []
        for service, entry in files.items():
            if is_kafkas((service, images.get(service, ""))) or service in services:
                where = f"the environment of {service} is in {entry.value}"
                self.problems.refused.append(f"{entry.origin}: {where}; give that file instead, or all in one place")
        for service, variables in services.items():
            dotted = [replace(e, path=split(e.path[0])) for e in variables if "." in e.path[0]]
            found += self._variables([e for e in variables if "." not in e.path[0]], service, images.get(service, ""))
            if key := dialect_of(dotted):
                found += self.apply(key, dotted, service)
        self._count_brokers([one for one in found if one.part == "cluster"], entries)
        return found

    def _count_brokers(self, brokers: list[Found], entries: list[Entry]) -> None:
        """Give each broker of a compose file the number of brokers of its cluster."""
        replicas = {
            e.path[1]: e.value
            for e in entries
            if e.path[2:] in (("deploy", "replicas"), ("scale",)) and e.value.isdigit()
        }
        clusters = dict[str, list[Found]]()
        for one in brokers:
            of = (one.settings.get(name) for name in _CLUSTER_NAMES)
            clusters.setdefault(next((s.value for s in of if s is not None), ""), []).append(one)
        for members in clusters.values():
            count = sum(int(replicas.get(one.name, "1")) for one in members)
            services = f"{self.text.path.name}, {', '.join(one.name for one in members)}"
            for one in members:
                one.extras["brokers"] = Setting("brokers", str(count), services)

    def _resources(self, entries: list[Entry]) -> list[Found]:
        """Return what the resources of Kubernetes are, each in its document."""
        found: list[Found] = []
        cluster: Found | None = None
        pools: list[Setting] = []
        for document in dict.fromkeys(entry.document for entry in entries):
            own = [entry for entry in entries if entry.document == document]
            values = {entry.name: entry.value for entry in own}
            kind, name = values.get("kind", ""), values.get("metadata.name", "")
            label = f"Strimzi's {kind}"
            if kind in ("KafkaConnect", "KafkaConnector"):
                worker = [replace(entry, path=entry.path[2:]) for entry in own if entry.path[:2] == ("spec", "config")]
                worker += [replace(e, path=("connector", "class")) for e in own if e.path == ("spec", "class")]
                found += self.apply("connect", worker, name)
            elif kind in table()["kinds"] and "strimzi" not in values.get("apiVersion", ""):
                self.problems.refused.append(f"{own[0].origin}: {kind} of another operator than Strimzi is not read")
            elif kind in table()["kinds"]:
                parts = self._resource(own, kind, name, label)
                for one in parts:
                    if kind == "KafkaNodePool" and "broker" in _roles_of(one) and "brokers" in one.extras:
                        pools.append(one.extras["brokers"])
                    if one.part == "cluster" and cluster is not None:
                        cluster.settings |= one.settings
                        if "broker" in (_roles_of(one) or "broker"):
                            cluster.extras |= one.extras
                    elif one.part == "cluster" and "broker" in (_roles_of(one) or "broker"):
                        cluster = one
                        found.append(one)
                    elif one.part != "cluster":
                        found.append(one)
            elif kind.startswith("KafkaMirrorMaker"):
                self.problems.refused.append(f"{own[0].origin}: {kind} is not read; give the settings of its clients")
            else:
                found += self._containers(own, name or kind)
        if cluster is not None and pools and all(pool.value.isdigit() for pool in pools):  # they count, not Kafka's
            count = str(sum(int(pool.value) for pool in pools))
            cluster.extras["brokers"] = Setting(pools[0].name, count, ", ".join(pool.origin for pool in pools))
        return found

    def _resource(self, own: list[Entry], kind: str, name: str, label: str) -> list[Found]:
        parts = dict[Part, Found]()
        for entry in own:
            rule, _ = rule_of({"rules": table()["kinds"][kind]}, entry.path)
            if rule is None:
                continue
            part: Part = rule["to"][0]
            client = part in CLIENTS
            one = parts.setdefault(part, Found(part, name, label, "java" if client else ""))
            rest = ".".join(entry.path[len(rule["at"].split(".")) :])
            if "names" not in rule:
                one.settings[rest] = replace(setting_of(entry), name=rest)
            elif extra := rule["names"].get(rest):
                one.extras[extra[1:]] = replace(setting_of(entry), name=rest)
            elif kind == "KafkaTopic" or get_close_matches(rest, rule["names"], 1, 0.75):
                self.refuse(
                    entry, entry.name, next(iter(get_close_matches(rest, [*rule["names"], "config"], 1, 0.5)), "")
                )
        if kind == "KafkaTopic":
            parts.setdefault("topic", Found("topic", name, label))
        return list(parts.values())

    def _containers(self, own: list[Entry], name: str) -> list[Found]:
        """Return what the variables of containers set."""
        pairs = dict[tuple[str, ...], dict[str, Entry]]()
        found: list[Found] = []
        for entry in own:
            if "env" in entry.path and "valueFrom" in entry.path:
                at = entry.path[: entry.path.index("valueFrom")]
                pairs.setdefault(at, {})["value"] = replace(entry, value="${valueFrom}", written="${valueFrom}")
            elif "env" in entry.path and entry.path[-1] in ("name", "value"):
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
        outsides = [entry for entry in own if "envFrom" in entry.path and entry.path[-1] == "name"]
        for outside in outsides if found else ():
            if "configMapRef" in outside.path:
                self.problems.refused.append(
                    f"{outside.origin}: variables of {name} are in the ConfigMap {outside.value}; write all of them "
                    "under env, or give them as one env file"
                )
            else:
                self.problems.notes.append(
                    f"{outside.origin}: variables of {name} in the Secret {outside.value} are not read"
                )
        return found


def _roles_of(found: Found) -> str:
    return found.extras["roles"].value if "roles" in found.extras else ""


_DOTNET_VALUES = {
    "acks": {"leader": "1", "none": "0", "all": "all"},
    "isolation.level": {"readcommitted": "read_committed", "readuncommitted": "read_uncommitted"},
    "partitioner": {
        "consistentrandom": "consistent_random",
        "murmur2random": "murmur2_random",
        "fnv1arandom": "fnv1a_random",
    },
}
"""Values of .NET's enumerations, with the values of librdkafka."""


def _dotnet_value(name: str, value: str) -> str:
    name = ALIASES["confluent"].get(name, name)
    lower = value.lower()
    return _DOTNET_VALUES[name].get(lower, lower) if name in _DOTNET_VALUES else value


def _is_client(section: tuple[str, ...], rows: list[tuple[Entry, str, bool]]) -> bool:
    """Return whether a section is a client: by its name, or by a name in it that only Kafka has."""
    names = {name for _, name, _ in rows}
    role = any(squash(part).find(r) >= 0 for part in section for r in CLIENTS)
    read = {name for name in names if ALIASES["confluent"].get(name, name) in READ["producer"] | READ["consumer"]}
    if not section:
        return bool(names - GENERIC)
    if role or (is_kafkas(section) and read):
        return True
    return bool(read - GENERIC - {"acks"}) and any("." in name for name in read)


def _roles(section: tuple[str, ...], settings: Settings) -> list[Role]:
    """Return whether a section is a producer, a consumer, or both: by its name, else by its settings."""
    for part in reversed(section):
        named = [role for role in CLIENTS if role in squash(part)]
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
