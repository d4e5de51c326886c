"""Loading of scenarios from files, with errors that name the key and the nearest valid key."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from chaos.errors import ScenarioError, UsageError
from chaos.scenario.clients import Assign, Subscribe
from chaos.scenario.faults import SPECS
from chaos.scenario.hints import nearest
from chaos.scenario.model import Scenario, Variant
from chaos.scenario.shipped import bugs, shipped
from chaos.units import format_size


def find(name_or_file: str) -> Path:
    """Return the file of a shipped scenario or bug by its name, or the file itself. Raises `ScenarioError`."""
    path = Path(name_or_file)
    if path.suffix in (".yaml", ".yml") or "/" in name_or_file:
        if not path.is_file():
            raise ScenarioError(f"there is no scenario file {name_or_file}")
        return path
    names = {**bugs(), **shipped()}
    if name_or_file not in names:
        raise ScenarioError(
            f"there is no scenario {name_or_file!r}{nearest(name_or_file, names)}; "
            "`python -m chaos list` shows all names; give a file by its path"
        )
    return names[name_or_file]


def load(path: Path, overrides: Iterable[str] = (), variant: str = "") -> Scenario:
    """Return the scenario of a file, with `path=value` overrides such as `producers.shop.config.acks=1`.

    With `variant`, return that side of an A/B scenario, as a scenario without variants. Raises `ScenarioError`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ScenarioError(f"{path} cannot be read: {e}") from None
    return parse(text, str(path), overrides, variant)


def all_overrides(
    sets: Iterable[str] | None,
    kafka: str | None,
    driver: str | None,
    bootstrap: str | None = None,
    client: str | None = None,
) -> list[str]:
    """Return the values of `--set`, `--kafka`, `--driver`, `--bootstrap` and `--client` as overrides."""
    if bootstrap and driver not in (None, "attached"):
        raise UsageError(f"--bootstrap is for an existing cluster, and --driver={driver} makes a new one")
    driver = "attached" if bootstrap else driver
    if kafka and driver == "attached":
        raise UsageError("--kafka chooses the release of a new cluster; an existing cluster has a fixed release")
    options = {
        "cluster.kafka": kafka,
        "cluster.driver": driver,
        "cluster.bootstrap": bootstrap,
        **_client_options(client),
    }
    # values in quotes, because YAML reads 10:30 as a number
    return [*(sets or ()), *(f"{path}={json.dumps(value)}" for path, value in options.items() if value)]


def _client_options(client: str | None) -> dict[str, str | None]:
    """Return the values that `--client` means: a release of confluent-kafka, or a runtime for every entry."""
    if client is None or client[:1].isdigit():
        return {"clients.confluent_kafka": client}
    return {f"{entries}.*.client": client for entries in ("producers", "consumers", "processors")}


def parse(text: str, where: str, overrides: Iterable[str] = (), variant: str = "") -> Scenario:
    """Return the scenario of a YAML text. `where` is its origin in errors. All variants are checked."""
    raw = read_mapping(text, where, "a scenario", "title, topics, producers, …")
    for override in overrides:
        _apply(raw, override)
    scenario = _validated(raw, where)
    sides = {
        name: _validated(_side(raw, name, side), f"{where}, variant {name}") for name, side in scenario.variants.items()
    }
    if not variant:
        return scenario
    if variant not in sides:
        names = ", ".join(sides) or "none"
        raise ScenarioError(f"{where} has no variant {variant!r}{nearest(variant, sides)} (variants: {names})")
    return sides[variant]


def read_mapping(text: str, where: str, kind: str, keys: str) -> dict[str, Any]:
    """Return the mapping in a YAML text. Raises `ScenarioError`, which names `kind` and `keys`, for anything else."""
    try:
        raw = _read(text)
    except yaml.YAMLError as e:
        mark = e.problem_mark if isinstance(e, yaml.MarkedYAMLError) else None
        line = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = e.problem if isinstance(e, yaml.MarkedYAMLError) else None
        raise ScenarioError(f"{where}{line} is not valid YAML: {problem or e}") from None
    if not isinstance(raw, dict):
        raise ScenarioError(f"{where} is not {kind}: it must be a mapping with {keys}")
    return raw


def _read(text: str) -> Any:
    """Return the value of a YAML text. Raises `yaml.YAMLError`, always that of the loader in Python.

    The loader in C is ten times as fast, but optional, and names other places.
    """
    if hasattr(yaml, "CSafeLoader"):
        with contextlib.suppress(yaml.YAMLError):
            return yaml.load(text, Loader=_FAST)
    return yaml.load(text, Loader=_Exact)


def _side(raw: dict[str, Any], name: str, side: Variant) -> dict[str, Any]:
    """Return the scenario of one variant: without variants, and with the values that it changes."""
    changed = copy.deepcopy(raw)
    variant = changed.pop("variants")[name] or {}
    changed["title"] = f"{raw['title']} ({name})"
    for path, value in side.set.items():
        _apply(changed, f"{path}={json.dumps(value)}")
    if variant.get("expect") is not None:
        changed["expect"] = variant["expect"]
    if side.promised_differs:
        changed["promised_differs"] = {**(changed.get("promised_differs") or {}), **side.promised_differs}
    return changed


def _validated(raw: dict[str, Any], where: str) -> Scenario:
    try:
        return Scenario.model_validate(raw)
    except ValidationError as e:
        problems = "\n  ".join(dict.fromkeys(_explain(error) for error in e.errors()))
        raise ScenarioError(f"{where} is not a valid scenario:\n  {problems}") from None


class _UniqueKeys(yaml.constructor.SafeConstructor):
    """A part of a YAML loader that refuses duplicate keys, of which YAML silently drops the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool | None):
                raise yaml.constructor.ConstructorError(None, None, "a key must be plain text", key_node.start_mark)
            if key in keys:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            keys.add(key)
        return dict(super().construct_mapping(node, deep))


class _Exact(_UniqueKeys, yaml.SafeLoader):
    """The loader in Python."""


_FAST = type("_Fast", (_UniqueKeys, getattr(yaml, "CSafeLoader", yaml.SafeLoader)), {})


def _apply(raw: dict[str, Any], override: str) -> None:
    """Set one `path=value`. A path names a list item by its number or `name`, and all items of a list by `*`.

    The rest after `config.` is one key. A missing key on the way gets an empty mapping.
    """
    path, equals, text = override.partition("=")
    if not equals or not path.strip():
        raise ScenarioError(f"--set {override!r} is not understood; write path=value, such as cluster.brokers=5")
    head, config, setting = path.strip().partition(".config.")
    parts = head.replace("[", ".").replace("]", "").split(".") + (["config", setting] if config else [])
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:  # the message leaves the value out, which may be a secret
        raise ScenarioError(f"--set {path.strip()}: the value is not valid YAML") from None
    _set(raw, parts, value, path, f"{path.strip()}=…")


def _set(raw: Any, parts: list[str], value: Any, path: str, override: str) -> None:
    parent: Any = raw
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        if part == "*" and isinstance(parent, list) and not last:
            for item in parent:
                _set(item, parts[i + 1 :], value, path, override)
            return
        if isinstance(parent, list):
            key: int | str = _index(parent, part, path if last else ".".join(parts[: i + 1]), override)
        elif isinstance(parent, dict):
            key = part
            if not last and parent.get(key) is None:
                if parts[i + 1] == "*":  # there is no such list
                    return
                parent[key] = {}
        else:
            raise ScenarioError(f"--set {override!r}: {'.'.join(parts[:i])} is a single value without keys")
        if last:
            parent[key] = value
        else:
            parent = parent[key]


def _index(items: list[Any], part: str, path: str, override: str) -> int:
    names = [item.get("name", item.get("title")) if isinstance(item, dict) else item for item in items]
    if part.isdigit() and int(part) < len(items):
        return int(part)
    if part in names:
        return names.index(part)
    valid = [str(name) for name in names]
    raise ScenarioError(f"--set {override!r}: {path} does not exist{nearest(part, valid)} (valid: {', '.join(valid)})")


def _explain(error: ErrorDetails) -> str:
    """Return one line for one error, such as `producers[0].recrods: unknown key (did you mean records?)`."""
    (where, valid_keys), kind = _place(error["loc"]), error["type"]
    if kind == "extra_forbidden":
        return f"{where}: unknown key{nearest(str(error['loc'][-1]), valid_keys)}"
    if kind == "missing":
        return f"{where}: is required"
    if kind.startswith("union_tag"):
        key = error["ctx"]["discriminator"].strip("'")
        valid = re.findall(r"'([^']+)'", error["ctx"].get("expected_tags", ""))
        if kind == "union_tag_not_found":
            return f"{where}: {key} is required"
        tag = error["ctx"]["tag"]
        return f"{where}: {key} {tag!r} is unknown{nearest(tag, valid)} (valid: {', '.join(valid)})"
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        bound = error["ctx"][name]
        return f"{where}: must be {words} {format_size(bound) if bound >= _MIB and bound % _MIB == 0 else bound}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def models_of(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return a model and all models that it contains by name, in the order of their fields."""
    models = {model.__name__: model}
    for field in model.model_fields.values():
        for part in models_in(field.annotation):
            models |= models_of(part)
    return models


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in the type of a field."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]


_MIB = 2**20
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}
"""By type of an error, the name of the bound and how it reads. Bounds of whole MiB are sizes."""
_UNNAMED_MEMBERS = ("function-after[", "literal[")
_MEMBERS: dict[str, type[BaseModel]] = {**models_of(Scenario), **SPECS, "subscribe": Subscribe, "assign": Assign}
"""The members of unions by the names that they have in the location of an error."""


def _place(location: tuple[int | str, ...]) -> tuple[str, list[str]]:
    """Return a location as `producers[0].config`, without the names of union members, and the keys that exist there."""
    text, keys = "", list[str]()
    models: list[type[BaseModel]] = [Scenario]
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part in _MEMBERS:
            models = [_MEMBERS[part]]
        elif not part.startswith(_UNNAMED_MEMBERS) and part not in ("str", "int", "bool", "float"):
            text += f".{part}" if text else part
            keys = [name for model in models for name in model.model_fields]
            fields = [model.model_fields[part] for model in models if part in model.model_fields]
            models = [m for field in fields for m in models_in(field.annotation)]
    return text, keys
