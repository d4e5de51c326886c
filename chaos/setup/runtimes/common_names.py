"""Settings of a library by the names and values that they have in other libraries."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.kafka.settings import Config, Scalar, as_text
from chaos.units import parse_duration


def by_common_names(config: Config, names: Mapping[str, str], values: Mapping[str, Mapping[str, str]]) -> Config:
    """Return settings by their common names and values; those without one as they are.

    names: common names by those of the library. values: common values by those of the library in lower case, by common
    name. A duration becomes milliseconds, as the common names have them.
    """
    return {names.get(name, name): _value(names.get(name, name), value, values) for name, value in config.items()}


def _value(name: str, value: Scalar, values: Mapping[str, Mapping[str, str]]) -> Scalar:
    text = as_text(value).lower()
    if name in values:
        return values[name].get(text, text)
    if name.endswith(".ms") and isinstance(value, str):
        try:
            return round(parse_duration(value) * 1000)
        except ValueError:
            return value
    return value
