"""From a name or a file to a scenario, with errors that name the key and the nearest known one."""

from __future__ import annotations

import copy
import difflib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from chaos.errors import ScenarioError, UsageError
from chaos.scenario.model import Scenario, Variant
from chaos.scenario.shipped import shipped


def find(name_or_file: str) -> Path:
    """The file of a shipped scenario's name, or the file itself."""
    path = Path(name_or_file)
    if path.suffix in (".yaml", ".yml") or "/" in name_or_file:
        if not path.is_file():
            raise ScenarioError(f"there is no scenario file {name_or_file}")
        return path
    known = shipped()
    if name_or_file not in known:
        raise ScenarioError(
            f"there is no scenario {name_or_file!r}{_nearest(name_or_file, known)}; "
            "`python -m chaos list` shows them, a file is given by its path"
        )
    return known[name_or_file]


def load(path: Path, overrides: Iterable[str] = (), variant: str = "") -> Scenario:
    """Read a scenario file and apply `path=value` overrides, such as `producers.shop.config.acks=1`.

    variant: the side of an A/B scenario that is wanted, as a scenario without variants.
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
    """What `--set`, `--kafka`, `--driver`, `--bootstrap` and `--client` say, all as overrides."""
    if bootstrap and driver not in (None, "attached"):
        raise UsageError(f"--bootstrap is of a cluster that exists, and --driver {driver} makes a new one")
    driver = "attached" if bootstrap else driver
    if kafka and driver == "attached":
        raise UsageError("--kafka chooses the release of a new cluster; one that exists has its own")
    # in quotes, for YAML takes 10:30 for a number
    given = {
        "cluster.kafka": kafka,
        "cluster.driver": driver,
        "cluster.bootstrap": bootstrap,
        "clients.confluent_kafka": client,
    }
    return [*(sets or ()), *(f"{path}={json.dumps(value)}" for path, value in given.items() if value)]


def parse(text: str, where: str, overrides: Iterable[str] = (), variant: str = "") -> Scenario:
    """Read a scenario from YAML text; `where` names its origin in errors. All variants are read, to find mistakes."""
    raw = mapping(text, where, "a scenario", "title, topics, producers, …")
    for override in overrides:
        _apply(raw, override)
    scenario = _validated(raw, where)
    sides = {
        name: _validated(_side(raw, name, side), f"{where}, variant {name}") for name, side in scenario.variants.items()
    }
    if not variant:
        return scenario
    if variant not in sides:
        known = ", ".join(sides) or "it has none"
        raise ScenarioError(f"{where} has no variant {variant!r}{_nearest(variant, sides)} (known: {known})")
    return sides[variant]


def mapping(text: str, where: str, what: str, keys: str) -> dict[str, Any]:
    """Read YAML text that has to be a mapping with no key given twice; `what` and `keys` say in errors what it is."""
    try:
        raw = yaml.load(text, Loader=_UniqueKeys)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        line = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ScenarioError(f"{where}{line} is not valid YAML: {getattr(e, 'problem', None) or e}") from None
    if not isinstance(raw, dict):
        raise ScenarioError(f"{where} is not {what}: it must be a mapping with {keys}")
    return raw


def _side(raw: dict[str, Any], name: str, side: Variant) -> dict[str, Any]:
    """The scenario as one variant has it: without variants, and with what this one changes."""
    changed = copy.deepcopy(raw)
    given = changed.pop("variants")[name] or {}
    changed["title"] = f"{raw['title']} ({name})"
    for path, value in side.set.items():
        _apply(changed, f"{path}={json.dumps(value)}")
    if given.get("expect") is not None:
        changed["expect"] = given["expect"]
    return changed


def _validated(raw: dict[str, Any], where: str) -> Scenario:
    try:
        return Scenario.model_validate(raw)
    except ValidationError as e:
        problems = "\n  ".join(dict.fromkeys(_explain(error) for error in e.errors()))
        raise ScenarioError(f"{where} is not a valid scenario:\n  {problems}") from None


class _UniqueKeys(yaml.SafeLoader):
    """YAML that refuses a key given twice: the first would be silently dropped."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool | None):
                raise yaml.constructor.ConstructorError(None, None, "a key must be plain text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return dict(super().construct_mapping(node, deep))


def _apply(raw: dict[str, Any], override: str) -> None:
    """Set one `path=value`. A list element is named by number or by its `name`; after `config` all is one key."""
    path, equals, text = override.partition("=")
    if not equals or not path.strip():
        raise ScenarioError(f"--set {override!r} is not understood; write path=value, such as cluster.brokers=5")
    head, config, setting = path.strip().partition(".config.")
    parts = head.replace("[", ".").replace("]", "").split(".") + (["config", setting] if config else [])
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:  # without the value: it may be a secret
        raise ScenarioError(f"--set {path.strip()}: its value is not one that YAML understands") from None
    override = f"{path.strip()}=…"  # in errors without the value: it may be a secret
    place: Any = raw
    for i, part in enumerate(parts[:-1]):
        place = _step(place, part, ".".join(parts[: i + 1]), override)
    if isinstance(place, list):
        place[_index(place, parts[-1], path, override)] = value
    elif isinstance(place, dict):
        place[parts[-1]] = value
    else:
        raise ScenarioError(f"--set {override!r}: {'.'.join(parts[:-1])} is a single value, nothing is below it")


def _step(place: Any, part: str, path: str, override: str) -> Any:
    if isinstance(place, list):
        return place[_index(place, part, path, override)]
    if isinstance(place, dict):
        if place.get(part) is None:
            place[part] = {}
        return place[part]
    raise ScenarioError(f"--set {override!r}: nothing is below {path.rpartition('.')[0]}")


def _index(place: list[Any], part: str, path: str, override: str) -> int:
    names = [item.get("name", item.get("title")) if isinstance(item, dict) else item for item in place]
    if part.isdigit() and int(part) < len(place):
        return int(part)
    if part in names:
        return names.index(part)
    known = [str(n) for n in names]
    raise ScenarioError(f"--set {override!r}: {path} is not there{_nearest(part, known)} (known: {', '.join(known)})")


def _explain(error: ErrorDetails) -> str:
    """One line for one problem: `producers[0].recrods: unknown key (did you mean records?)`."""
    where = _where(error["loc"])
    kind = error["type"]
    if kind == "extra_forbidden":
        known = _known_keys(error["loc"][:-1])
        return f"{where}: unknown key{_nearest(str(error['loc'][-1]), known)}"
    if kind == "missing":
        return f"{where}: is required"
    if kind.startswith("union_tag"):
        key = error["ctx"]["discriminator"].strip("'")
        known = re.findall(r"'([^']+)'", error["ctx"].get("expected_tags", ""))
        if kind == "union_tag_not_found":
            return f"{where}: {key} is required"
        tag = error["ctx"]["tag"]
        return f"{where}: {key} {tag!r} is unknown{_nearest(tag, known)} (known: {', '.join(known)})"
    message = error["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def _where(location: tuple[int | str, ...]) -> str:
    """`('producers', 0, 'config')` as `producers[0].config`; names of union branches are left out."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part not in _BRANCHES:
            text += f".{part}" if text else part
    return text


def _models(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {}
    todo: list[Any] = [model]
    while todo:
        item = todo.pop()
        if isinstance(item, type) and issubclass(item, BaseModel):
            if item.__name__ not in found:
                found[item.__name__] = item
                todo.extend(field.annotation for field in item.model_fields.values())
                todo.extend(m for field in item.model_fields.values() for m in field.metadata)
        else:
            todo.extend(getattr(item, "__args__", ()))
    return found


_MODELS = _models(Scenario)
_TAGS = {
    str(tag): model
    for model in _MODELS.values()
    for field in ("kind", "mode")
    if (f := model.model_fields.get(field)) is not None
    for tag in getattr(f.annotation, "__args__", ())
}
_BRANCHES = set(_TAGS) | set(_MODELS) | {"str", "int", "bool", "float"}


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    """The keys that the model at a location has."""
    models: list[Any] = [Scenario]
    for part in location:
        if isinstance(part, int):
            continue
        if part in _TAGS or part in _MODELS:
            models = [_TAGS.get(str(part)) or _MODELS[str(part)]]
            continue
        fields = [m.model_fields[part] for m in models if part in m.model_fields]
        models = [m for f in fields for m in _models_in(f.annotation)]
    return [name for m in models for name in m.model_fields]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for arg in getattr(annotation, "__args__", ()) for m in _models_in(arg)]


def _nearest(name: str, known: Iterable[str]) -> str:
    match = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" (did you mean {match[0]}?)" if match else ""
