"""A reproduction asked for by somebody who does not type: the params of the DAG `incident_reproduction`.

`arguments` turns them into the command line that answers, and `shortfall` says whether it did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.errors import FAIL, PASS, UsageError
from chaos.run.directory import new_run_id

ACTIONS = ("replay", "repeat", "ab", "shrink", "bisect", "from-logs")

_OPTIONS: dict[str, tuple[str, ...]] = {
    "replay": (),
    "repeat": ("variant", "seed"),
    "ab": ("variant", "seed"),
    "shrink": ("variant", "seed", "anomaly", "tries", "budget"),
    "bisect": ("variant", "seed", "anomaly", "tries", "kafka", "client"),
    "from-logs": ("timezone", "clients"),
}
"""Which params each action knows; what is left empty is left out."""


def arguments(params: Mapping[str, Any]) -> list[str]:
    """What follows `python -m chaos`. Raises `UsageError` for params that do not go together."""
    action = params["action"]
    if action not in ACTIONS:
        raise UsageError(f"there is no action {action!r}; known are {', '.join(ACTIONS)}")
    if not params.get("source"):
        raise UsageError("source is what to reproduce: a bundle, a run directory, a scenario, or a folder of logs")
    if action == "shrink" and not params.get("anomaly"):
        raise UsageError("shrink needs anomaly: the kind that has to stay, such as lost_write")
    if action == "ab" and not params.get("overrides"):
        raise UsageError("ab needs overrides: what is changed, such as producers.shop.config.acks=all")
    first = [str(params.get("runs") or 10)] if action == "repeat" else []
    asked = [f"--{name}={value}" for name in _OPTIONS[action] if (value := params.get(name)) not in (None, "")]
    if action == "from-logs":
        # a name of its own: somebody may have answered the TODOs of the last one
        out = Path(params["runs_dir"]) / f"{new_run_id('from-logs')}.yaml"
        return ["incident", action, *asked, f"--out={out}", "--", params["source"]]
    if action != "replay":
        asked += [f"--set={override}" for override in params.get("overrides") or []]
    as_json = [] if action == "shrink" else ["--json"]
    return [action, *first, *asked, *as_json, f"--runs-dir={params['runs_dir']}", "--", params["source"]]


def shortfall(action: str, code: int, said: str) -> str | None:
    """Why what a command answered does not answer what was asked; None if it does.

    A replay has to show the same, a repetition to be done with no run that could not tell, a comparison to know both of
    its sides, a search to find something.
    """
    if action == "replay" and code in (PASS, FAIL):
        found = _read(said)
        return None if found.get("same") is True else str(found.get("sentence") or "the replay said nothing")
    if action == "repeat" and code in (PASS, FAIL):
        found = _read(said)
        unsure = int(found.get("runs", 0)) - int(found.get("told", 0))
        return f"{unsure} of {found.get('runs')} runs could not tell" if unsure else None
    if code == PASS or (action == "ab" and code == FAIL):
        return None
    return str(_read(said).get("sentence") or f"{action} ended with {code}; its log says why")


def _read(said: str) -> dict[str, Any]:
    try:
        found = json.loads(said)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
