"""An application: `app.yaml`, settings files and options as parts with the origin of each value.

The names in `app.yaml` are the names in scenarios: `client`, `config`, `replication_factor`, `cluster.kafka`.
`traffic` is for `prove`. A settings file that is given as an option overrides `app.yaml`, setting by setting. In
`app.yaml`, `config` overrides `properties`. A settings file may stand in place of `app.yaml`: then it gives all parts
that it has.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self, get_args

import yaml
from pydantic import Field, model_validator

from chaos.clients.choice import DEFAULT, Client, ClientChoice, parse_client
from chaos.errors import UsageError
from chaos.guarantees.dialects.files import SettingsFile, open_settings
from chaos.guarantees.dialects.frameworks import Found, Selection, is_framework
from chaos.guarantees.facts import ClientPart, ClusterPart, TopicPart
from chaos.guarantees.names import (
    LABELS,
    PARTS,
    Part,
    Role,
    check_broker_names,
    check_client_names,
    check_topic_names,
    check_understood,
    parts_of_names,
    recognize,
)
from chaos.guarantees.values import Problems, Setting, Settings, check_number, setting
from chaos.kafka.security import Security
from chaos.kafka.settings import Config
from chaos.kinds import kind_of, kind_of_mapping, mistaken
from chaos.ledger.record import HEADER_BYTES
from chaos.scenario.expect import EffectBound
from chaos.scenario.load import read_mapping, validated
from chaos.scenario.mistakes import Source
from chaos.setup import apps as setup_apps
from chaos.setup.effects import Effect
from chaos.setup.model import Features
from chaos.setup.names import Bootstrap, EntryName, PlainName, TopicName
from chaos.setup.triggers import Strict
from chaos.units import Duration, Rate, Release, Size

CommitTime = Literal["after_processing", "before_processing", "in_transaction", "on_checkpoint", "never"]
"""When the offset of a record is committed; with automatic commits of librdkafka and sarama, stored or marked."""
COMMIT_TIMES: tuple[CommitTime, ...] = get_args(CommitTime)
_SELECT = "of a file with several: the profile, section, channel or service"
_READERS = ("franz-go", "kafka-python")
"""Client libraries that the rules know as consumers only."""


class Producer(Strict):
    """The producer of the application."""

    client: ClientChoice | None = Field(None, description="client library, such as java:3.9.2")
    properties: Path | None = Field(None, description="a settings file; `config` overrides it")
    select: str = Field("", description=_SELECT)
    config: Config = {}


class Consumer(Producer):
    """The consumer of the application."""

    commit: CommitTime | None = Field(None, description="when the offset of a record is committed")


class Topic(Strict):
    """A topic that the application writes or reads."""

    name: str = ""
    partitions: int | None = Field(None, ge=1)
    replication_factor: int | None = Field(None, ge=1)
    properties: Path | None = None
    select: str = Field("", description=_SELECT)
    config: Config = {}


class Cluster(Strict):
    """The cluster: its settings, or the address to ask it."""

    brokers: int | None = Field(None, ge=1, description="number of brokers")
    kafka: Release | None = Field(None, description="Kafka release")
    controllers: int | None = Field(None, ge=1, description="number of dedicated controllers in the runs of `prove`")
    features: Features = Field({}, description="levels of features in the runs of `prove`, such as share.version: 0")
    properties: Path | None = Field(None, description="a server.properties, variables of an image, or a resource")
    select: str = Field("", description=_SELECT)
    config: Config = {}
    bootstrap: Bootstrap | None = Field(None, description="host:port of brokers to ask for the settings")
    security: Security = Security()


class Traffic(Strict):
    """The shape of the traffic in the runs of `prove`. The defaults are small, so that a run is short."""

    producers: int = Field(1, ge=1, le=10, description="processes of the producer")
    members: int = Field(2, ge=1, le=10, description="members of the group")
    records: int = Field(2000, ge=1000, le=1_000_000, description="records of each producer, at least")
    rate: Rate = Field(500.0, description="rate of each producer")
    value_size: Size = Field(128, ge=HEADER_BYTES, le=2**20, description="bytes of a value")
    keys: int | None = Field(None, ge=1, description="number of distinct keys; no key if left out")
    per_record: Duration = Field(0.001, description="processing time of a record")
    transaction: int = Field(50, ge=1, description="records of a transaction")


class Program(setup_apps.App):
    """The program itself, as an entry of `apps` of a scenario, with its inputs and effects: `prove` explores it."""

    name: EntryName = "app"
    samples: Path = Field(description="inputs as the program gets them, a JSON document in each line")
    id: str = Field("", description="JSONPath of what identifies an input; a field of the samples if left out")
    writes: list[TopicName] = Field([], description="topics that get a record for each input, with its id there")
    effects: list[Effect] = Field([], description="or what each input leads to, as `effects` of a scenario")
    expect: dict[PlainName, EffectBound] = Field({}, description="bounds of effects, as in `expect.effects`")

    @model_validator(mode="after")
    def _has_effects(self) -> Self:
        if bool(self.writes) == bool(self.effects):
            raise ValueError("give writes, the topics of its outputs, or effects")
        return self


class App(Strict):
    """An application. Each part may be left out; what depends on it is then unknown.

    An application that reads a topic and writes another one has `input` and `output`. With `topic`, producer and
    consumer are two programs on one topic.
    """

    producer: Producer | None = None
    consumer: Consumer | None = None
    topic: Topic | None = Field(
        None, description="the topic of an application that does not read one and write another"
    )
    input: Topic | None = Field(None, description="the topic that the consumer reads")
    output: Topic | None = Field(None, description="the topic that the producer writes")
    cluster: Cluster | None = None
    traffic: Traffic | None = None
    app: Program | None = Field(None, description="the program itself, which `prove` explores with the settings")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.topic and (self.input or self.output):
            raise ValueError(
                "topic goes without input and output; give the topic that is read as input, the other as output"
            )
        if self.input and self.output and self.input.name and self.input.name == self.output.name:
            raise ValueError(
                f"input and output are both {self.input.name}; an application that reads what it writes has topic"
            )
        return self

    @property
    def written(self) -> tuple[str, Topic | None]:
        """The topic that the producer writes, else the only one, with its key."""
        key = next((key for key in ("output", "topic", "input") if getattr(self, key)), "topic")
        return key, getattr(self, key)

    @property
    def transforms(self) -> bool:
        """Whether it reads one topic and writes another one."""
        return self.input is not None and self.output is not None


@dataclass(frozen=True)
class AppFile:
    """An application, with the text of its file. `path` is None if no file was given."""

    app: App = field(default_factory=App)
    path: Path | None = None
    source: Source | None = None

    def origin(self, *keys: str) -> str:
        """Return the origin of a value, such as `app.yaml:4`."""
        if self.path is None or self.source is None:
            return "app.yaml"
        return f"{self.path.name}{self.source.origin(keys).removeprefix(str(self.path))}"

    def located(self, path: Path) -> Path:
        """Return a path in the file, which is relative to the file."""
        return self.path.parent / path if self.path else path


def is_app(path: Path) -> bool:
    """Return whether a file is an `app.yaml`, or one with an error; other YAML files have settings in a dialect."""
    if path.suffix not in (".yaml", ".yml"):
        return path.is_dir() or not path.exists()
    try:
        documents = list(yaml.compose_all(path.read_text(encoding="utf-8-sig"), Loader=yaml.SafeLoader))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return True
    if len(documents) != 1 or not isinstance(documents[0], yaml.MappingNode):
        return len(documents) <= 1
    keys = [key.value for key, _ in documents[0].value]
    return not keys or any(key in App.model_fields for key in keys)


def read_app(path: Path) -> AppFile:
    """Return the application of a file. Raises `UsageError` or `ScenarioError` with the line or the key."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory; give a file such as app.yaml")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text; give a YAML file such as app.yaml") from None
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}") from None
    if not text.strip():
        raise UsageError(f"{path} is empty; give at least one of {', '.join(App.model_fields)}")
    raw = read_mapping(text, str(path), "application", ", ".join(App.model_fields))
    if not raw:
        raise UsageError(f"{path} is empty; give at least one of {', '.join(App.model_fields)}")
    source = Source(text, str(path))
    return AppFile(validated(App, raw, source, f"{path} is not a valid application"), path, source)


def _check_kind(path: Path) -> None:
    """Raise `UsageError` for a path that another command takes."""
    kind = kind_of(path)
    if path.suffix in (".yaml", ".yml") and kind is None:
        with contextlib.suppress(OSError, UnicodeDecodeError, yaml.YAMLError):
            node = yaml.compose(path.read_text(encoding="utf-8-sig"), Loader=yaml.SafeLoader)
            keys = {str(key.value) for key, _ in node.value} if isinstance(node, yaml.MappingNode) else set()
            if "title" in keys:  # files of other programs have keys such as topics, too
                kind = kind_of_mapping(keys, "application")
    if kind is not None and kind != "settings":
        raise UsageError(mistaken(path, kind, "an application or its settings"))


@dataclass(frozen=True)
class Options:
    """What the command line gives. Each part may be missing."""

    app: Path | None = None
    producer_properties: Path | None = None
    consumer_properties: Path | None = None
    topic_config: Path | None = None
    server_properties: Path | None = None
    client: str | None = None
    commit: str | None = None
    replication_factor: int | None = None
    bootstrap: str | None = None
    topic: str | None = None
    select: tuple[str, ...] = ()


@dataclass
class Parts:
    """The parts of an application."""

    producer: ClientPart | None = None
    consumer: ClientPart | None = None
    topic: TopicPart | None = None
    cluster: ClusterPart | None = None
    input: TopicPart | None = None
    """The topic that the consumer reads, if the producer writes another one, which is `topic`."""

    @property
    def clients(self) -> list[ClientPart]:
        """The producer and the consumer, as far as they are given."""
        return [client for client in (self.producer, self.consumer) if client is not None]


class _Files:
    """The settings files of an application, each read once."""

    def __init__(self, options: Options, problems: Problems) -> None:
        self.problems = problems
        self.selection = Selection(options.select)
        self.app = AppFile()
        self._whole: SettingsFile | None = None
        self._plain: tuple[Part, ...] = ()
        if options.app:
            _check_kind(options.app)
        if options.app and is_app(options.app):
            self.app = read_app(options.app)
        elif options.app:
            self._whole = open_settings("", options.app, PARTS, self.selection, problems)
            if self._whole.plain:
                self._plain = parts_of_names(self._whole.names(), self._whole.text.label)

    def has_clients(self) -> bool:
        """Return whether the file in place of app.yaml has a producer or a consumer."""
        found = self._plain if self._whole is None or self._whole.plain else [one.part for one in self._whole.parts]
        return any(part in ("producer", "consumer") for part in found)

    def of(
        self, part: Part, own: Path | None, option: str, path: Path | None, key: str = ""
    ) -> list[tuple[SettingsFile, Found | None]]:
        """Return the files that give a part, a later one counts before; with what a file that is not plain has of it.

        Raises `UsageError` for a file that is given for a part and has it not.
        """
        found: list[tuple[SettingsFile, Found | None]] = []
        if self._whole is not None:
            chosen = None if self._whole.plain else self._whole.choose(part, self.selection)
            if chosen is not None or part in self._plain:
                found.append((self._whole, chosen))
        key = key or part
        given = [(f"{key}.properties", self.app.located(own))] if own else []
        for label, file in [*given, *([(option, path)] if path else [])]:
            entry = getattr(self.app.app, key) if label.startswith(key) else None
            selection = Selection((entry.select,)) if entry and entry.select else self.selection
            opened = open_settings(label, file, [part], selection, self.problems)
            chosen = None if opened.plain else opened.choose(part, selection)
            if selection is not self.selection:
                selection.check()
            if chosen is None and not opened.plain:
                others = ", ".join(dict.fromkeys(f"{one.part} ({one.label or 'section'})" for one in opened.parts))
                raise UsageError(f"{opened.text.label} has no settings of a {part}; it has settings of {others}")
            found.append((opened, chosen))
        return found


def read_parts(options: Options, problems: Problems) -> tuple[Parts, AppFile]:
    """Return the parts of an application, without the parts that only a cluster knows. Raises `UsageError`."""
    files = _Files(options, problems)
    client = _client(options.client)
    given = (files.app.app.producer, files.app.app.consumer, options.producer_properties, options.consumer_properties)
    if client is not None and all(part is None for part in given) and not files.has_clients():
        files.app = replace(files.app, app=files.app.app.model_copy(update=_default_clients(client)))
    if options.commit is not None and options.commit not in COMMIT_TIMES:
        raise UsageError(f"--commit {options.commit!r} is not known; choose one of {', '.join(COMMIT_TIMES)}")
    cluster = _cluster(files, options, problems)
    parts = Parts(
        producer=_client_part("producer", files, options.producer_properties, client, problems),
        consumer=_client_part("consumer", files, options.consumer_properties, client, problems),
        topic=_topic(files, options, cluster.given, problems),
        cluster=cluster,
        input=_topic(files, Options(), cluster.given, problems, "input") if files.app.app.transforms else None,
    )
    files.selection.check()
    if options.commit is not None:
        if parts.consumer is None:
            raise UsageError("--commit is about a consumer; give its settings too (--consumer-properties, or app.yaml)")
        parts.consumer.commit = Setting("commit", options.commit, "--commit")
    return parts, files.app


def _client(text: str | None) -> Client | None:
    if text is None:
        return None
    try:
        return parse_client(text)
    except ValueError as e:
        raise UsageError(f"--client: {e}") from None


def _default_clients(client: Client) -> dict[str, Producer]:
    """Return a producer and a consumer with all defaults, or only a consumer if the client cannot write."""
    readers: dict[str, Producer] = {"consumer": Consumer(client=client)}
    return readers if _no_producer(client) else {"producer": Producer(client=client), **readers}


def _client_part(
    role: Role, files: _Files, path: Path | None, client: Client | None, problems: Problems
) -> ClientPart | None:
    """Return a producer or consumer; None if nothing gives it."""
    entry: Producer | Consumer | None = getattr(files.app.app, role)
    own = entry.properties if entry else None
    given = files.of(role, own, f"--{role}-properties", path)
    if entry is None and not given:
        return None
    entry = entry or (Producer() if role == "producer" else Consumer())
    named, why = _library(role, entry, files.app, given, client)
    _check_ability(named, role, why)
    settings: Settings = {}
    commit: Setting | None = None
    config = _from_config(entry.config, files.app, role)
    for file, found in given:
        if found is None:
            read = file.read(named.runtime != "confluent", problems.notes)
            check_understood(named.runtime, role, read, file.text.label)
        else:
            read, commit = found.settings, found.commit
        settings |= {name: s for name, s in read.items() if name not in settings or not is_framework(s)}
        if own is not None and file is given[0][0]:
            settings |= config
    settings = settings if own is not None else {**config, **settings} if path else {**settings, **config}
    check_client_names(named.runtime, role, settings, problems)
    part = ClientPart(role, named, settings, commit, why=why)
    if isinstance(entry, Consumer) and entry.commit is not None:
        part.commit = Setting("commit", entry.commit, files.app.origin("consumer", "commit"))
    return part


def _library(
    role: Role, entry: Producer, file: AppFile, given: list[tuple[SettingsFile, Found | None]], client: Client | None
) -> tuple[Client, str]:
    """Return the client library, and how it is known. Raises `UsageError` if a file has another one, or none."""
    named = client or entry.client
    why = "--client" if client else file.origin(role, "client")
    of_dialects = [(opened, found) for opened, found in given if found is not None and found.runtime]
    if of_dialects:
        opened, found = of_dialects[-1]
        label = f"read as {found.label} has it"
        if named is not None and named.runtime != found.runtime:
            raise UsageError(
                f"{why}: the client is {named.runtime}, and {opened.text.label} has the settings of {found.label}, "
                f"which uses {LABELS[found.runtime]}"
            )
        return (named, f"{label}; {why}") if named is not None else (Client(runtime=found.runtime), label)
    if named is not None:
        return named, why
    names = {name for opened, found in given for name in (found.settings if found else opened.names())}
    named, why = _recognized(names | entry.config.keys(), role, with_file=bool(given))
    unclear = [(o, found) for o, found in given if found is not None or o.text.form != "properties"]
    if unclear and why.startswith("assumed"):
        opened, section = unclear[0]
        first = next(iter(section.settings.values()), None) if section else None
        at = f" ({first.origin}: {first.name})" if first else ""
        raise UsageError(
            f"{opened.text.label}: no name in it is of one client library only{at}, and their defaults differ; name "
            "the library with --client (java, confluent for librdkafka, kafka-python), or give the file of the "
            "framework that reads it: Kafka Connect's has key.converter, Kafka Streams' has application.id"
        )
    return named, why


def _recognized(names: set[str], role: Role, with_file: bool) -> tuple[Client, str]:
    """Return the client that the names of settings belong to, and how it was recognized."""
    if runtime := recognize(names, role):
        return Client(runtime=runtime), f"recognized by its settings as {LABELS[runtime]}"
    runtime = "java" if with_file else DEFAULT
    return Client(runtime=runtime), f"assumed to be {LABELS[runtime]}: no setting is of one client only"


def _no_producer(client: Client) -> str:
    """Return why the rules know no producer of a client; empty if they do."""
    if client.runtime in _READERS:
        return "they know its consumers only"
    return client.missing("produce") or client.missing("send outcomes")


def _check_ability(client: Client, role: Role, why: str) -> None:
    """Raise `UsageError` for what the rules do not know: a runtime, its producer, a processor."""
    if client.runtime not in LABELS:
        raise UsageError(f"{why}: the rules do not know the client {client.runtime}; they know {', '.join(LABELS)}")
    if not client.missing("process") and client.missing("subscribe"):
        raise UsageError(
            f"{why}: the rules know no application of {LABELS[client.runtime]} ({client.missing('subscribe')}); "
            "give the settings of its producer and of its consumer with client java"
        )
    if role == "producer" and (reason := _no_producer(client)):
        advice = "its sink is a Java producer, so give the sink's settings with client java"
        if client.runtime in _READERS:
            advice = "leave the producer out, or give one of java, confluent or sarama"
        raise UsageError(f"{why}: the rules know no producer of {LABELS[client.runtime]} ({reason}); {advice}")


def _from_config(config: Config, file: AppFile, part: str) -> Settings:
    return {name: setting(name, value, file.origin(part, "config", name)) for name, value in config.items()}


def _merged(
    part: Part, files: _Files, option: str, path: Path | None, problems: Problems, key: str
) -> tuple[Settings, Settings]:
    """Return the settings of a topic or of brokers, of files and config, and what else a file says of it.

    key: the name of the part in app.yaml.
    """
    entry = getattr(files.app.app, key)
    own = entry.properties if entry else None
    settings, extras = dict[str, Setting](), dict[str, Setting]()
    config = _from_config(entry.config, files.app, key) if entry else {}
    given = files.of(part, own, option, path, key)
    for number, (file, found) in enumerate(given):
        read = found.settings if found else file.read(True, problems.notes)
        extras |= found.extras if found else {}
        if number == len(given) - 1 and path:
            settings |= config
        settings |= read
    return settings if path else settings | config, extras


def _topic(
    files: _Files, options: Options, with_cluster: bool, problems: Problems, key: str | None = None
) -> TopicPart | None:
    """Return the topic of a key in app.yaml, by default the topic that the producer writes."""
    key = key or files.app.app.written[0]
    entry = getattr(files.app.app, key)
    settings, extras = _merged("topic", files, "--topic-config", options.topic_config, problems, key)
    wanted = (entry, options.topic_config, options.replication_factor)
    if all(part is None for part in wanted) and not (with_cluster or settings or extras):
        return None
    replicas = extras.get("replicas")
    if options.replication_factor is not None:
        replicas = setting("replication factor", options.replication_factor, "--replication-factor")
    elif entry is not None and entry.replication_factor is not None:
        origin = files.app.origin(key, "replication_factor")
        replicas = setting("replication factor", entry.replication_factor, origin)
    check_topic_names(settings, problems)
    replicas = replicas and check_number(replicas, problems)
    return TopicPart(settings, replicas, extras.get("partitions"))


def _cluster(files: _Files, options: Options, problems: Problems) -> ClusterPart:
    entry = files.app.app.cluster
    settings, extras = _merged("cluster", files, "--server-properties", options.server_properties, problems, "cluster")
    check_broker_names(settings, problems)
    release = extras.get("kafka")
    kafka = entry.kafka if entry and entry.kafka else release.value if release else None
    given = entry is not None or options.server_properties is not None or bool(settings or extras)
    part = ClusterPart(settings, kafka=kafka, given=given)
    if entry is not None:
        part.controllers, part.features = entry.controllers, entry.features
    if entry is not None and entry.brokers is not None:
        part.brokers = setting("brokers", entry.brokers, files.app.origin("cluster", "brokers"))
    elif "brokers" in extras:
        part.brokers = check_number(extras["brokers"], problems)
    return part
