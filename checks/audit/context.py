"""What sentences about findings are made from: the scenario, and what was seen at which moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chaos.kafka.settings import as_text
from chaos.scenario.model import Scenario
from chaos.scenario.producers import Producer
from checks.audit.epochs import Epoch, Epochs, Key
from checks.audit.history import Faults, Leadership

Finding = dict[str, Any]
Evidence = dict[str, Any]


@dataclass
class Context:
    """What a mechanism is read from."""

    scenario: Scenario
    leadership: Leadership
    faults: Faults
    epochs: Epochs

    def __post_init__(self) -> None:
        self.by_key: dict[Key, Epoch] = {e.key: e for e in self.epochs.all}
        self.by_place = self.epochs.by_place()

    def producer(self, client: str | None) -> Producer | None:
        """The scenario's entry of a producer client such as `shop/1`."""
        name = (client or "").rpartition("/")[0]
        return next((p for p in self.scenario.producers if p.name == name), None)

    def setting(self, client: str | None, name: str, default: str) -> str:
        """A setting of a producer as the scenario gives it, else the client's default."""
        producer = self.producer(client)
        value = producer.config.get(name, default) if producer else default
        return as_text(value)


def present(**values: Any) -> Evidence:
    """Evidence without what is not known."""
    return {name: value for name, value in values.items() if value is not None}
