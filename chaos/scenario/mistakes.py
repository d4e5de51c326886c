"""Mistakes in a YAML file, as lines that say where (file and line, or option), what is wrong, and what is right.

A message never has the words of the validator, nor a value that may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from chaos.kafka.settings import as_text
from chaos.setup.names import either, listed, nearest
from chaos.setup.triggers import Acked, Delivered, Heal, Trigger
from chaos.units import format_size

Path = tuple[str | int, ...]
"""Keys and numbers of list items on the way to a value."""

Models = Mapping[str, type[BaseModel]]
"""The members of unions by the names that they have in the location of an error."""

PROBLEMS = "problems"
"""Type of the error that holds one message for each problem between the parts of a model."""

_PLACE = re.compile(r"([a-z_]+(?:\[\d+\]|\.[A-Za-z_][\w-]*)*): ")
_SECRET = re.compile(r"password|secret|token|key|credential|jaas|security", re.IGNORECASE)
_MIB = 2**20
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}
"""By type of an error, the name of the bound and how it reads. Bounds of whole MiB are sizes."""
_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "dict": "a mapping of keys to values",
    "model": "a mapping of keys to values",
}
"""What a value has to be, by the beginning of the type of an error."""
_PARTS: dict[str, type[BaseModel]] = {"Trigger": Trigger, "Heal": Heal, "Delivered": Delivered, "Acked": Acked}
_FEW = 6
_LENGTHS = {"too_short": "min_length", "too_long": "max_length"}
_UNNAMED_MEMBERS = ("function-", "literal[", "constrained-", "lax-or-strict", "json-or-python", "nullable")
_PLAIN_MEMBERS = frozenset({"str", "int", "bool", "float", "[key]"})


@dataclass
class Source:
    """The text of a file, and what has changed its values since: options, and the keys of a variant.

    changes: the origin of later values by their path: an option, or another path in the file.
    """

    text: str
    where: str
    changes: dict[Path, str | Path] = field(default_factory=dict)

    def origin(self, path: Path) -> str:
        """Return where a value is from, such as `mine.yaml:7`: the place of the longest known part of its path."""
        lines = self._lines()
        for length in range(len(path), 0, -1):
            changed = self.changes.get(path[:length])
            if isinstance(changed, str):
                return changed
            if (line := lines.get(path[:length] if changed is None else changed)) is not None:
                return f"{self.where}:{line}"
        return self.where

    def has(self, path: Path) -> bool:
        """Return whether a path is in the file, or is changed."""
        return path in self.changes or path in self._lines()

    def move(self, old: Path, new: Path) -> None:
        """Note that values are at another path than in the file."""
        self.changes |= {(*new, *path[len(old) :]): path for path in self._lines() if path[: len(old)] == old}

    def _lines(self) -> dict[Path, int]:
        if self._found is None:
            self._found = dict(lines_of(yaml.compose(self.text, Loader=yaml.SafeLoader)))
        return self._found

    _found: dict[Path, int] | None = field(default=None, init=False, repr=False)


def lines_of(node: Any, at: Path = (), depth: int = 12) -> Iterator[tuple[Path, int]]:
    """Yield the line of each key and list item of a YAML node, by its path. An alias may contain itself."""
    if not depth:
        return
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*at, key.value), key.start_mark.line + 1
            yield from lines_of(value, (*at, key.value), depth - 1)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield (*at, i), value.start_mark.line + 1
            yield from lines_of(value, (*at, i), depth - 1)


def joined(problems: Sequence[str]) -> PydanticCustomError:
    """Return the error of a validator with one message for each problem."""
    return PydanticCustomError(PROBLEMS, "{text}", {"text": "; ".join(problems), PROBLEMS: list(problems)})


def mistakes(error: ValidationError, model: type[BaseModel], members: Models, source: Source, lists: str) -> list[str]:
    """Return one line for each mistake. lists: the command that lists what is too long for a line."""
    by_place: dict[Path, list[tuple[ErrorDetails, str, list[str]]]] = {}
    for details in error.errors():
        if details["type"] == "default_factory_not_called":
            continue  # follows from another mistake
        path, keys = _place(details["loc"], model, members)
        by_place.setdefault(path, []).append((details, as_key(path), keys))
    found: list[str] = []
    for path, at_place in by_place.items():
        if any(other[: len(path)] == path and len(other) > len(path) for other in by_place) and _all_types(at_place):
            continue  # another form of the same value says more
        found += [_located(source, path, text) for text in _explained(at_place, lists)]
    return list(dict.fromkeys(found))


def as_key(path: Path) -> str:
    """Return a path as text, such as `producers[0].config`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _located(source: Source, path: Path, text: str) -> str:
    """Return a message with its origin. A rule between parts names its place at the beginning of the message."""
    if not path and (place := _PLACE.match(text)):
        path = tuple(int(n) if n else key for n, key in re.findall(r"\[(\d+)\]|([\w-]+)", place[1]))
        setting = text[place.end() :].partition(" ")[0].rstrip(":")
        if source.has((*path, setting)):
            path = (*path, setting)
    return f"{source.origin(path)}: {text}"


def _all_types(errors: Sequence[tuple[ErrorDetails, str, list[str]]]) -> bool:
    return all(_wanted(details) for details, _, _ in errors)


def _wanted(error: ErrorDetails) -> str:
    """Return what a value has to be instead of what it is; empty for another error."""
    kind, _, rest = error["type"].partition("_")
    return _WANTED.get(kind, "") if rest in ("type", "parsing", "from_float", "attributes_type") else ""


def _explained(errors: Sequence[tuple[ErrorDetails, str, list[str]]], lists: str) -> Iterator[str]:
    """Yield the messages for the errors at one place; alternatives of one value are one message."""
    wanted = list(dict.fromkeys(_with_keys(w, details) for details, _, _ in errors if (w := _wanted(details))))
    choices = [w for details, _, _ in errors if details["type"] == "literal_error" for w in _literals(details)]
    details, where, _ = errors[0]
    if wanted or choices:
        value = _shown(details["input"], where)
        if choices:
            found = nearest(str(details["input"]), choices) if isinstance(details["input"], str) else ""
            wanted.append(f"one of {', '.join(choices)}{found}" if len(choices) > 1 else choices[0])
        if {"text", "a number"} <= set(wanted):
            wanted = ["text", "a number", "true", "false"]
        yield f"{where or 'the file'}: {value} is not {either(wanted)}"
    for details, where, keys in errors:
        if not _wanted(details) and details["type"] != "literal_error":
            yield from _explain(details, where, keys, lists)


def _with_keys(wanted: str, error: ErrorDetails) -> str:
    """Return what is wanted, for a part with few keys with them."""
    model = _PARTS.get(error.get("ctx", {}).get("class_name", ""))
    if model is None or len(model.model_fields) > _FEW:
        return wanted
    return f"a mapping with {either(list(model.model_fields))}"


def _literals(error: ErrorDetails) -> list[str]:
    return [text.strip("'") for text in re.findall(r"'[^']*'|\b(?:True|False|\d+)\b", error["ctx"]["expected"])]


def _shown(value: Any, where: str) -> str:
    if isinstance(value, dict):
        return "a mapping of keys to values"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if _SECRET.search(where):
        return "the value"
    return f"{value[:60]!r}" if isinstance(value, str) else as_text(value)[:60]


def _explain(error: ErrorDetails, where: str, keys: Collection[str], lists: str) -> Iterator[str]:
    """Yield lines such as `producers[0].recrods: unknown key (did you mean records?)`."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "default_factory_not_called":  # of another key that has its own line
        return
    if kind == PROBLEMS:
        yield from context[PROBLEMS]
    elif kind == "extra_forbidden":
        hint = nearest(str(error["loc"][-1]), keys)
        yield f"{where}: unknown key{hint}" + (f"; {listed(keys, 'keys here', _page(where, lists))}" if keys else "")
    elif kind == "missing":
        yield f"{where}: is required"
    elif kind == "union_tag_not_found":
        yield f"{where}: {context['discriminator'].strip(chr(39))} is required"
    elif kind == "union_tag_invalid":
        key, tag = context["discriminator"].strip("'"), context["tag"]
        valid = re.findall(r"'([^']+)'", context["expected_tags"])
        yield f"{where}: {key} {tag!r} is unknown{nearest(tag, valid)}; {listed(valid, f'{key}s', f'{lists} faults')}"
    elif kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        bound = context[name]
        yield f"{where}: must be {words} {format_size(bound) if bound >= _MIB and bound % _MIB == 0 else bound}"
    elif kind.removeprefix("string_") in _LENGTHS:
        yield f"{where}: {_length(error, kind.removeprefix('string_'))}"
    else:
        message = error["msg"].removeprefix("Value error, ")
        yield f"{where}: {message}" if where else message


def _page(where: str, lists: str) -> str:
    """Return the command that lists the keys at a place."""
    return f"{lists} {'checks' if where.startswith('expect') else 'fields'}"


def _length(error: ErrorDetails, kind: str) -> str:
    bound = error["ctx"][_LENGTHS[kind]]
    unit = "characters" if isinstance(error["input"], str) else "entries"
    if kind == "too_long":
        return f"has {len(error['input'])} {unit}, and at most {bound} are allowed"
    return f"is empty; give at least {bound}" if bound == 1 else f"needs at least {bound} {unit}"


def models_of(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return a model and all models that it contains by name, in the order of their fields."""
    models = {model.__name__: model}
    for part in model.model_fields.values():
        for inner in models_in(part.annotation):
            models |= models_of(inner)
    return models


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in the type of a field."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]


def _place(location: Path, model: type[BaseModel], members: Models) -> tuple[Path, list[str]]:
    """Return the path of a location, without the names of union members, and the keys that exist there."""
    path, keys = list[str | int](), list[str]()
    models: list[type[BaseModel]] = [model]
    for part in location:
        if isinstance(part, int):
            path.append(part)
        elif part in members:
            models = [members[part]]
        elif not part.startswith(_UNNAMED_MEMBERS) and part not in _PLAIN_MEMBERS:
            path.append(part)
            keys = [name for found in models for name in found.model_fields]
            fields = [found.model_fields[part] for found in models if part in found.model_fields]
            if fields:  # else a key that the user chose: the models are its values
                models = [m for found in fields for m in models_in(found.annotation)]
    return tuple(path), keys
