"""Loading of scenarios from files and options."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from chaos.errors import ScenarioError, UsageError
from chaos.faults import SPECS
from chaos.kinds import WORDS, Kind, kind_of, kind_of_mapping, mistaken
from chaos.scenario.client_rules import with_files
from chaos.scenario.effect_rules import with_effect_files
from chaos.scenario.mistakes import Path as Place
from chaos.scenario.mistakes import Source, mistakes, models_in, models_of
from chaos.scenario.model import Scenario, Variant
from chaos.scenario.shipped import GATES, bugs, shipped, titles
from chaos.setup.clients import Assign, Subscribe
from chaos.setup.names import PRIMARY, nearest
from chaos.setup.share import Share

__all__ = [
    "all_overrides",
    "find",
    "load",
    "models_in",
    "models_of",
    "of_mapping",
    "parse",
    "read_mapping",
    "validated",
]

M = TypeVar("M", bound=BaseModel)


def find(name_or_file: str) -> Path:
    """Return the file of a shipped scenario or bug by its name, or the file itself. Raises `ScenarioError`."""
    path = Path(name_or_file)
    names = {**bugs(), **shipped()}
    if name_or_file not in names and (kind := kind_of(path)) is not None:
        raise ScenarioError(mistaken(name_or_file, kind, "a scenario"))
    if path.suffix in (".yaml", ".yml") or "/" in name_or_file or (path.is_dir() and name_or_file not in names):
        if path.is_dir():
            raise ScenarioError(f"{name_or_file} is a directory; give a file such as {path / 'mine.yaml'}")
        if not path.is_file():
            near = nearest(path.name, (found.name for found in path.parent.glob("*.y*ml")))
            raise ScenarioError(f"there is no scenario file {name_or_file}{near}")
        return path
    if name_or_file not in names:
        if name_or_file in titles(GATES):
            raise ScenarioError(mistaken(name_or_file, "gate", "a scenario"))
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
    raw, source = read_mapping(text, where, "scenario", "title, topics, producers, …"), Source(text, where)
    _move_first_cluster(raw, source)
    for override in overrides:
        for path in _apply(raw, override):
            source.changes[path] = f"--set {override.partition('=')[0].strip()}"
    scenario = _validated(raw, source, where)
    sides = {
        name: _validated(*_side(raw, source, name, side), f"{where}, variant {name}")
        for name, side in scenario.variants.items()
    }
    if not variant:
        return scenario
    if variant not in sides:
        names = ", ".join(sides) or "none"
        raise ScenarioError(f"{where} has no variant {variant!r}{nearest(variant, sides)} (variants: {names})")
    return sides[variant]


def _move_first_cluster(raw: dict[str, Any], source: Source) -> None:
    """Make `clusters.primary` the `cluster`, which options set. Raises `ScenarioError` if there are both."""
    clusters = raw.get("clusters")
    if not isinstance(clusters, dict) or PRIMARY not in clusters:
        return
    if "cluster" in raw:
        raise ScenarioError(f"{source.origin(('cluster',))}: cluster: is clusters.{PRIMARY}; give one of the two")
    raw["cluster"], raw["clusters"] = clusters[PRIMARY], {n: c for n, c in clusters.items() if n != PRIMARY}
    source.move(("clusters", PRIMARY), ("cluster",))


def of_mapping(raw: dict[str, Any], where: str) -> Scenario:
    """Return the scenario of plain data without variants, as `parse` of its text. Raises `ScenarioError`."""
    return _validated(raw, Source("", where), where)


def read_mapping(text: str, where: str, wanted: Kind, keys: str) -> dict[str, Any]:
    """Return the mapping in a YAML text. Raises `ScenarioError` for anything else, and for a mapping of another kind.

    keys: some that a mapping of this kind has.
    """
    kind = WORDS[wanted][0]
    try:
        raw = _read(text)
    except yaml.YAMLError as e:
        raise ScenarioError(_yaml_problem(where, e, text)) from None
    if raw is None:
        raise ScenarioError(f"{where} is empty; {kind} is a mapping with {keys}")
    if not isinstance(raw, dict):
        found = "a list" if isinstance(raw, list) else "plain text"
        raise ScenarioError(f"{where}:1 is {found}, not {kind}: it must be a mapping with {keys}")
    if other := kind_of_mapping(raw, wanted):
        raise ScenarioError(mistaken(where, other, kind))
    return raw


def _read(text: str) -> Any:
    """Return the value of a YAML text. Raises the `yaml.YAMLError` of the loader in Python.

    The loader in C is ten times as fast, but optional, and names other places.
    """
    if hasattr(yaml, "CSafeLoader"):
        with contextlib.suppress(yaml.YAMLError):
            return yaml.load(text, Loader=_FAST)
    return yaml.load(text, Loader=_Exact)


def _yaml_problem(where: str, error: yaml.YAMLError, text: str) -> str:
    """Return where a text is no YAML, why, and for common mistakes what to write."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    problem = (error.problem if isinstance(error, yaml.MarkedYAMLError) else None) or str(error).partition("\n")[0]
    line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
    if mark and "\t" in line[: mark.column + 1]:
        problem = "a tab; YAML indents with spaces"
    elif problem == "mapping values are not allowed here":
        problem += "; check the indentation, and put text with a colon in quotes"
    return f"{where}{f':{mark.line + 1}:{mark.column + 1}' if mark else ''} is not valid YAML: {problem}"


def _side(raw: dict[str, Any], source: Source, name: str, side: Variant) -> tuple[dict[str, Any], Source]:
    """Return the scenario of one variant: without variants, and with the values that it changes."""
    changed, origins = copy.deepcopy(raw), Source(source.text, source.where, dict(source.changes))
    variant = changed.pop("variants")[name] or {}
    changed["title"] = f"{raw['title']} ({name})"
    for path, value in side.set.items():
        at: Place = ("variants", name, "set", path)
        for place in _apply(changed, f"{path}={json.dumps(value)}", f"{source.origin(at)}: variants.{name}.set"):
            origins.changes[place] = source.changes.get(at, at)
    if variant.get("expect") is not None:
        changed["expect"] = variant["expect"]
        origins.changes["expect",] = ("variants", name, "expect")
    if side.promised_differs:
        changed["promised_differs"] = {**(changed.get("promised_differs") or {}), **side.promised_differs}
    return changed, origins


def _validated(raw: dict[str, Any], source: Source, where: str) -> Scenario:
    headline = f"{where} is not a valid scenario"
    scenario, folder = validated(Scenario, raw, source, headline), Path(source.where).parent
    apps = [app.placed_in(folder.absolute()) for app in scenario.apps]
    own = {
        key: [e.model_copy(update={"client": e.client.placed_in(folder)}) for e in getattr(scenario, key)]
        for key in ("producers", "consumers", "processors")
    }
    scenario = with_files(scenario.model_copy(update={"apps": apps, **own}), folder, source, headline)
    return with_effect_files(scenario, folder, source, headline)


def validated(model: type[M], raw: dict[str, Any], source: Source, headline: str) -> M:
    """Return the content of a file as a model. Raises `ScenarioError` with one line for each mistake."""
    try:
        return model.model_validate(raw)
    except ValidationError as e:
        lines = mistakes(e, model, _MEMBERS | models_of(model), source, "python -m chaos reference")
        raise ScenarioError("\n  ".join([f"{headline}:", *lines])) from None


class _UniqueKeys(yaml.constructor.SafeConstructor):
    """A part of a YAML loader that refuses duplicate keys: YAML silently drops the first one."""

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


def _apply(raw: dict[str, Any], override: str, option: str = "--set") -> list[Place]:
    """Set one `path=value`, and return the places that have it. option: what gives it, for errors.

    A path names a list item by its number or `name`, and all items of a list by `*`. A name may have dots. The rest
    after `config.`, or after the name of a connector, is one key. A missing key on the way gets an empty mapping.
    """
    path, equals, text = override.partition("=")
    if not equals or not path.strip():
        raise ScenarioError(f"{option} {override!r} is not understood; write path=value, such as cluster.brokers=5")
    parts = path.strip().replace("[", ".").replace("]", "").split(".")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:  # the message leaves the value out, which may be a secret
        raise ScenarioError(f"{option} {path.strip()}: the value is not valid YAML") from None
    return list(_set(raw, parts, value, path, f"{option} {path.strip()}=…", _named(raw)))


def _named(raw: dict[str, Any]) -> set[str]:
    """Return the names of entries, and of groups, which are keys elsewhere, such as in `expect`."""
    entries = [item for items in raw.values() if isinstance(items, list) for item in items if isinstance(item, dict)]
    return {str(entry[key]) for entry in entries for key in ("name", "group") if entry.get(key)}


def _set(
    raw: Any, parts: list[str], value: Any, path: str, override: str, named: Collection[str], at: Place = ()
) -> Iterator[Place]:
    """Set a value, and yield the places that have it. named: names that may have dots, beside keys on the way."""
    parent: Any = raw
    i = 0
    while i < len(parts):
        part = parts[i]
        if part == "*" and isinstance(parent, list) and i + 1 < len(parts):
            for number, item in enumerate(parent):
                yield from _set(item, parts[i + 1 :], value, path, override, named, (*at, number))
            return
        if not isinstance(parent, dict | list):
            raise ScenarioError(f"{override}: {'.'.join(parts[:i])} is a single value without keys")
        to = _end(parts, i, parent, at, named)
        part, last = ".".join(parts[i:to]), to == len(parts)
        if isinstance(parent, list):
            key: Any = _index(parent, part, path if last else ".".join(parts[:to]), override)
        else:
            key = part
            if not last and parent.get(key) is None:
                if parts[to] == "*":  # there is no such list
                    return
                parent[key] = {}
        at = (*at, key)
        if last:
            parent[key] = value
        else:
            parent = parent[key]
        i = to
    yield at


def _end(parts: Sequence[str], i: int, parent: Any, at: Place, named: Collection[str]) -> int:
    """Return where the name ends that begins at a part: the longest one that is there, or else one part."""
    if at[-1:] == ("config",) or at[-2:-1] == ("connectors",):
        return len(parts)
    there = {str(key) for key in parent} if isinstance(parent, dict) else {str(name) for name in _names(parent)}
    fitting = (to for to in range(len(parts), i + 1, -1) if (name := ".".join(parts[i:to])) in there or name in named)
    return next(fitting, i + 1)


def _names(items: list[Any]) -> list[Any]:
    return [item.get("name", item.get("title")) if isinstance(item, dict) else item for item in items]


def _index(items: list[Any], part: str, path: str, override: str) -> int:
    names = _names(items)
    if part.isdigit() and int(part) < len(items):
        return int(part)
    if part in names:
        return names.index(part)
    valid = [str(name) for name in names]
    raise ScenarioError(
        f"{override}: {path} does not exist{nearest(part, valid)} (valid: {', '.join(valid) or 'none'})"
    )


_MEMBERS: dict[str, type[BaseModel]] = {
    **models_of(Scenario),
    **SPECS,
    **{"subscribe": Subscribe, "assign": Assign, "share": Share},
}
"""The members of unions by the names that they have in the location of an error."""
