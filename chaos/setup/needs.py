"""What fields of a scenario need of a client library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from chaos.clients.traits import Ability

Asked = Iterator[tuple[str, Ability]]
"""Keys, each with an ability that its value needs."""


@dataclass(frozen=True)
class Needs:
    """Metadata of a field: an ability that its client library needs, such as `Needs("workers")`.

    A model names in `abilities` what it needs as a whole. `Client.refusal` writes the message where a library lacks the
    ability.

    when: returns whether a value needs it, from the value and its model; without it, each value but the default does.
    """

    ability: Ability
    when: Callable[[Any, Any], bool] | None = None


def asked(part: BaseModel, at: str = "") -> Asked:
    """Yield the keys of a part of a scenario, below `at`, with the abilities that they need."""
    yield from ((at, ability) for ability in getattr(part, "abilities", ()))
    for name, field in type(part).model_fields.items():
        value, key = getattr(part, name), f"{at}.{name}" if at else name
        for need in field.metadata:
            if not isinstance(need, Needs):
                continue
            usual = field.get_default(call_default_factory=True, validated_data={})
            if need.when(value, part) if need.when else value != usual:
                yield key, need.ability
        if isinstance(value, BaseModel):
            yield from asked(value, key)
