"""Values of settings, with their origins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chaos.kafka.settings import Scalar, as_text


@dataclass(frozen=True)
class Setting:
    """A value with its origin.

    name: as it is written, such as `Producer.RequiredAcks`. origin: where it comes from, such as `app.yaml:4` or
    `default of kafka-clients 3.9.2`. given: whether the user set it, so that it is no default. written: the value for
    the user, where the rules have another one.
    """

    name: str
    value: str
    origin: str
    given: bool = True
    written: str = ""

    @property
    def shown(self) -> str:
        """The value for the user."""
        return self.written or self.value

    def meaning(self, value: str) -> Setting:
        """Return the setting with the value that it has for the rules; the user sees the present one."""
        return self if value == self.value else replace(self, value=value, written=self.shown)


Settings = dict[str, Setting]
"""Settings by the name that is written, or by the common name."""

Facts = dict[str, Setting]
"""What the rules read, by names such as `producer.acks`. A fact that is not known is absent."""


def setting(name: str, value: Scalar, origin: str, given: bool = True) -> Setting:
    """Return a setting with its value as Kafka reads it."""
    return Setting(name, as_text(value).strip(), origin, given)
