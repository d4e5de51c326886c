"""The file of an application, `app.yaml`: its model, and the origin of each value.

The names are those of scenarios: `client`, `config`, `replication_factor`, `cluster.kafka`. `traffic` is for `prove`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self, get_args

import yaml
from pydantic import Field, model_validator

from chaos.errors import UsageError
from chaos.kafka.security import Security
from chaos.kafka.settings import Config
from chaos.ledger.record import HEADER_BYTES
from chaos.scenario.load import read_mapping, validated
from chaos.scenario.mistakes import Source
from chaos.setup.addresses import Bootstrap
from chaos.setup.model import Features
from chaos.setup.runtimes.choice import ClientChoice
from chaos.setup.triggers import Strict
from chaos.units import Duration, Rate, Release, Size

CommitTime = Literal["after_processing", "before_processing", "in_transaction", "on_checkpoint", "never"]
"""When the offset of a record is committed; with automatic commits of librdkafka and sarama, stored or marked."""
COMMIT_TIMES: tuple[CommitTime, ...] = get_args(CommitTime)

_SELECT = "of a file with several: the profile, section, channel or service"


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

    def beside(self, path: Path) -> Path:
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
    raw = read_mapping(text, str(path), "an application", ", ".join(App.model_fields))
    if not raw:
        raise UsageError(f"{path} is empty; give at least one of {', '.join(App.model_fields)}")
    source = Source(text, str(path))
    return AppFile(validated(App, raw, source, f"{path} is not a valid application"), path, source)
