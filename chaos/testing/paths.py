"""Paths of a scenario that has no file yet: relative ones are those in a folder, as for a file in that folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from chaos.setup.apps import App
from chaos.setup.effects import Effect
from chaos.values.model import FILES, Value

Part = App | Effect | Value


def placed(scenario: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a scenario, written as in YAML, with absolute paths in its producers, applications and effects.

    A part that is invalid stays as it is: the loader of scenarios says what is wrong with it.
    """
    folder = folder.absolute()
    made = dict(scenario)
    for key, part_of in (("producers", _producer), ("apps", _app), ("effects", _effect)):
        if isinstance(parts := made.get(key), list):
            made[key] = [part_of(part, folder) if isinstance(part, Mapping) else part for part in parts]
    return made


def _producer(part: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    value = part.get("value")
    return {**part, "value": _with(Value, value, FILES, folder)} if isinstance(value, Mapping) else dict(part)


def _app(part: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    here = {} if part.get("image") or part.get("external") else {"directory": "."}
    return _with(App, {**here, **part}, ("files", "directory", "program"), folder)


def _effect(part: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    return _with(Effect, part, ("files", "sql", "format"), folder)


def _with(model: type[Part], part: Mapping[str, Any], keys: Iterable[str], folder: Path) -> dict[str, Any]:
    try:
        found = model.model_validate(part)
    except ValidationError:
        return dict(part)
    data = found.placed_in(folder).model_dump(mode="json", include=set(keys), exclude_unset=True)
    return {**part, **{key: data[key] for key in part.keys() & data.keys()}}
