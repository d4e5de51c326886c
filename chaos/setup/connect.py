"""Workers of Kafka Connect as an application: each instance is a worker, which runs the connectors of the scenario."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from chaos.clients.java.traits import NEWEST
from chaos.setup.names import PlainName
from chaos.setup.placeholders import Text, as_text, placeholders
from chaos.setup.triggers import Strict
from chaos.units import Release

Config = dict[str, Annotated[Text, BeforeValidator(as_text)]]
WORKER = "worker.properties"
"""The file of a worker in the folder {files} of its instance."""
_MIRROR = "org.apache.kafka.connect.mirror."
_STRINGS = "org.apache.kafka.connect.storage.StringConverter"
_INTERNAL = {"config": 1, "offset": 25, "status": 5}
"""The topics in which workers of a group keep connectors, positions of sources, and states (KIP-26), and how many
partitions each has if the worker's settings give none."""


class Connect(Strict):
    """A worker of Kafka Connect, and the connectors that it gets through its REST API before traffic begins.

    Distributed workers of one application are one group. A standalone worker has its connectors in files.
    """

    connectors: dict[PlainName, Config] = Field(
        min_length=1, description="settings of each connector by its name, such as connector.class and topics"
    )
    mode: Literal["distributed", "standalone"] = "distributed"
    release: Release = Field(NEWEST, description="of Kafka, which Connect is a part of")
    config: Config = Field(
        {}, description="settings of the worker; without them strings as keys and values, and the defaults of Connect"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, config in self.connectors.items():
            if "connector.class" not in config:
                raise ValueError(f"connectors.{name}: give connector.class, the class of the connector")
            if config.get("name", name) != name:
                raise ValueError(f"connectors.{name}.name: is the name of the entry; leave it out")
        return self

    @property
    def distributed(self) -> bool:
        """Whether workers share the connectors, and get them through their REST API."""
        return self.mode == "distributed"

    @property
    def mirrors(self) -> bool:
        """Whether the workers run nothing but MirrorMaker 2, which reads records and writes them to topics only."""
        return all(config["connector.class"].startswith(_MIRROR) for config in self.connectors.values())

    @property
    def groups(self) -> list[str]:
        """The groups of consumers of its sinks, called by the name of the connector, as far as they are known here."""
        return list(self.sinks)

    @property
    def sinks(self) -> dict[str, list[str]]:
        """The topics that its sinks name, by group, as far as it is known here; none if they name a pattern."""
        found: dict[str, list[str]] = {}
        for name, config in self.connectors.items():
            group = config.get("consumer.override.group.id", f"connect-{name}")
            if {"topics", "topics.regex"} & config.keys() and not list(placeholders(group)):
                topics = [topic.strip() for topic in config.get("topics", "").split(",") if topic.strip()]
                found.setdefault(group, []).extend(topics)
        return found

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield each text with placeholders, with its key."""
        yield from ((f"connect.config.{key}", text) for key, text in self.config.items())
        for name, config in self.connectors.items():
            yield from ((f"connect.connectors.{name}.{key}", text) for key, text in config.items())

    def files(self, plugins: str) -> dict[str, Config]:
        """Return the files of settings that a worker begins with, by name, in the order of its arguments.

        plugins: the folder with the folders of connectors.
        """
        files = {WORKER: {**self._defaults(), "plugin.path": plugins, **self.config}}
        if not self.distributed:
            files |= {f"{name}.properties": {"name": name, **config} for name, config in self.connectors.items()}
        return files

    def internal_topics(self, app: str) -> dict[str, int]:
        """Return the topics that the workers of an application make for themselves, with their partitions.

        Standalone workers have none.
        """
        found = {}
        for kind, partitions in _INTERNAL.items() if self.distributed else ():
            given = self.config.get(f"{kind}.storage.partitions", "")
            name = self.config.get(f"{kind}.storage.topic", f"{app}-{kind}")
            found[name] = int(given) if given.isdecimal() else partitions
        return found

    def topic_of_states(self, app: str) -> str:
        """Return the topic in which the workers of an application keep states; empty for standalone workers."""
        return list(self.internal_topics(app))[-1] if self.distributed else ""

    def _defaults(self) -> Config:
        """Return what a worker cannot start without, with the topics of its group as the cluster replicates topics."""
        common = {
            "bootstrap.servers": "{bootstrap}",
            "key.converter": _STRINGS,
            "value.converter": _STRINGS,
            "listeners": "http://127.0.0.1:{port}",
            "rest.advertised.host.name": "127.0.0.1",
        }
        if not self.distributed:
            return common | {"offset.storage.file.filename": "{data}/connect.offsets"}
        topics = {f"{kind}.storage.topic": f"{{app}}-{kind}" for kind in _INTERNAL}
        replicas = {f"{kind}.storage.replication.factor": "-1" for kind in _INTERNAL}
        return common | {"group.id": "{app}"} | topics | replicas
