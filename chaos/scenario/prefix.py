"""The prefix of a run on a cluster that exists: every topic and every group of the run begins with it.

Nothing without it is ever created, altered or deleted there, and all that has it is removed at the end. The names are
changed once, when the scenario is resolved, so that the rest of a run knows nothing of it.
"""

from __future__ import annotations

import re
import secrets
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from chaos.errors import ScenarioError
from chaos.scenario.model import Scenario
from chaos.scenario.names import InCluster

MOST_OF_RUN_ID = 60


def new_prefix(run_id: str) -> str:
    """A prefix that no other run has or begins with, not even one with the same id on another machine."""
    return f"aftershock-{re.sub(r'[^A-Za-z0-9._-]', '-', run_id)[:MOST_OF_RUN_ID]}-{secrets.token_hex(3)}-"


def prefixed(scenario: Scenario, prefix: str) -> Scenario:
    """The scenario with the prefix before every name in the cluster. Raises `ScenarioError` if one gets too long."""
    found: Scenario = _renamed(scenario, Scenario, (), prefix)
    return found


def _renamed(value: Any, annotation: Any, metadata: tuple[Any, ...], prefix: str) -> Any:
    """A value with all names in it changed. `annotation` and `metadata` say what it is."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        changed = {
            key: _renamed(getattr(value, key), f.annotation, tuple(f.metadata), prefix) for key, f in fields.items()
        }
        return value.model_copy(update={k: v for k, v in changed.items() if v is not getattr(value, k)})
    if isinstance(value, str):
        name = next((m for m in _markers(annotation, metadata)), None)
        return value if name is None else _with_prefix(value, prefix, name)
    if isinstance(value, list):
        return [_renamed(item, _part(annotation, list, 0), (), prefix) for item in value]
    if isinstance(value, dict):
        keys, values = _part(annotation, dict, 0), _part(annotation, dict, 1)
        return {_renamed(k, keys, (), prefix): _renamed(v, values, (), prefix) for k, v in value.items()}
    return value


def _markers(annotation: Any, metadata: tuple[Any, ...]) -> list[InCluster]:
    """The markers of a text, whichever of several types it may have; those of texts inside of lists are not its own."""
    found = [m for m in metadata if isinstance(m, InCluster)]
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return found + _markers(inner, tuple(more))
    if get_origin(annotation) not in (list, dict):
        for arm in get_args(annotation):
            found += _markers(arm, ())
    return found


def _part(annotation: Any, kind: type, index: int) -> Any:
    """What the items of a list are, or the keys and values of a mapping."""
    if get_origin(annotation) is kind:
        return get_args(annotation)[index]
    for arm in get_args(annotation):
        if (part := _part(arm, kind, index)) is not None:
            return part
    return None


def _with_prefix(name: str, prefix: str, marker: InCluster) -> str:
    if len(prefix) + len(name) > marker.most:
        raise ScenarioError(
            f"{name!r} is too long a name on a cluster that exists: with the run's prefix {prefix} it has "
            f"{len(prefix) + len(name)} characters, and {marker.most} are allowed"
        )
    return prefix + name
