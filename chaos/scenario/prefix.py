"""The prefix of a run on an existing cluster: the name of every topic and group of the run begins with it.

The run creates, alters and deletes only topics and groups with the prefix, and removes all of them at the end. The
names are changed once, when the scenario is resolved; the rest of the run does not depend on the prefix.
"""

from __future__ import annotations

import re
import secrets
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from chaos.errors import ScenarioError
from chaos.scenario.model import Scenario
from chaos.scenario.names import InCluster

MAX_RUN_ID = 60


def new_prefix(run_id: str) -> str:
    """Return a unique prefix. No other run has a prefix that begins with it, even with the same id on another host."""
    return f"aftershock-{re.sub(r'[^A-Za-z0-9._-]', '-', run_id)[:MAX_RUN_ID]}-{secrets.token_hex(3)}-"


def prefixed(scenario: Scenario, prefix: str) -> Scenario:
    """Return the scenario with the prefix before every name in the cluster. Raises `ScenarioError` for long names."""
    renamed: Scenario = _renamed(scenario, Scenario, (), prefix)
    return renamed


def _renamed(value: Any, annotation: Any, metadata: tuple[Any, ...], prefix: str) -> Any:
    """Return a value with all its names changed. `annotation` and `metadata` are its type."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        before = {k: v for k, v in value}  # not dict(value), which would call a field named `keys`
        after = {k: _renamed(before[k], f.annotation, tuple(f.metadata), prefix) for k, f in fields.items()}
        return value.model_copy(update={k: v for k, v in after.items() if v is not before[k]})
    if isinstance(value, str):
        marker = next(iter(_markers(annotation, metadata)), None)
        return value if marker is None else _with_prefix(value, prefix, marker)
    if isinstance(value, list):
        return [_renamed(item, _type_argument(annotation, list, 0), (), prefix) for item in value]
    if isinstance(value, dict):
        keys, values = _type_argument(annotation, dict, 0), _type_argument(annotation, dict, 1)
        return {_renamed(k, keys, (), prefix): _renamed(v, values, (), prefix) for k, v in value.items()}
    return value


def _markers(annotation: Any, metadata: tuple[Any, ...]) -> list[InCluster]:
    """Return the markers of a text type, in a union those of all its members, but not those of list items."""
    markers = [m for m in metadata if isinstance(m, InCluster)]
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return markers + _markers(inner, tuple(more))
    if get_origin(annotation) not in (list, dict):
        for member in get_args(annotation):
            markers += _markers(member, ())
    return markers


def _type_argument(annotation: Any, kind: type, index: int) -> Any:
    """Return the type of the items of a list, or of the keys and values of a mapping; None if it is neither."""
    if get_origin(annotation) is kind:
        return get_args(annotation)[index]
    for member in get_args(annotation):
        if (argument := _type_argument(member, kind, index)) is not None:
            return argument
    return None


def _with_prefix(name: str, prefix: str, marker: InCluster) -> str:
    if len(prefix) + len(name) > marker.max_length:
        raise ScenarioError(
            f"{name!r} is too long a name on an existing cluster: with the prefix {prefix} of the run it has "
            f"{len(prefix) + len(name)} characters, and {marker.max_length} are allowed"
        )
    return prefix + name
