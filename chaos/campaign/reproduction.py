"""One request and one answer for all incident commands: the interface of the DAG `incident_reproduction`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from chaos.campaign.subject import Request
from chaos.errors import UsageError
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import PartsResult
from chaos.run.directory import new_run_id

ACTIONS = ("replay", "repeat", "ab", "shrink", "bisect", "from-logs")


@dataclass(frozen=True, kw_only=True)
class Reproduction(Request):
    """A request to the command `action`. source: for `from-logs`, a folder of broker logs.

    timezone, clients: of `from-logs`, or empty.
    """

    action: str
    timezone: str = ""
    clients: str = ""

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Reproduction:
        """Return the request of a DAG's params; params that are not of a reproduction, or left out, are ignored."""
        return TypeAdapter(cls).validate_python({name: value for name, value in params.items() if value is not None})

    def check(self) -> None:
        """Raise `UsageError` for values that do not fit together."""
        if self.action not in ACTIONS:
            raise UsageError(f"there is no action {self.action!r}; known are {', '.join(ACTIONS)}")
        if not self.source:
            raise UsageError("source is what to reproduce: a bundle, a run directory, a scenario, or a folder of logs")
        if self.action == "shrink" and not self.anomaly:
            raise UsageError("shrink needs anomaly: the kind that must remain, such as lost_write")
        if self.action == "ab" and not self.overrides:
            raise UsageError("ab needs overrides: what is changed, such as producers.shop.config.acks=all")


@dataclass(frozen=True)
class Answer:
    """Whether the question was answered, a sentence, and the full result as text for a log."""

    answered: bool
    sentence: str
    detail: str = ""


def reproduce(request: Reproduction, listener: ProgressListener) -> Answer:
    """Run an action. Raises `UsageError` for values that do not fit together, and as the action's command."""
    # imported on use: Airflow imports this module each time it reads the DAG
    from chaos.campaign import ab, bisect, repeat, replay, shrink
    from chaos.incident.logs import draft

    request.check()
    request.runs_dir.mkdir(parents=True, exist_ok=True)
    match request.action:
        case "replay":
            found = replay.replay(request, listener)
            return Answer(found.answer == replay.SAME, found.sentence, _text(found))
        case "repeat":
            found = repeat.repeat(request, listener)
            unsure = sum(not run.conclusive for part in found.parts for run in part.runs)
            return Answer(not unsure, f"{unsure} of {found.repeat} runs are inconclusive", _text(found))
        case "ab":
            compared = ab.ab(request, listener)
            text = f"{compared.verdict}: {compared.sentence}"
            return Answer(compared.verdict != "inconclusive", compared.sentence, text)
        case "shrink":
            found = shrink.shrink(request, listener)
            return Answer(bool(found.answer), found.sentence, f"# {found.sentence}\n{found.answer}")
        case "bisect":
            found = bisect.bisect(request, listener)
            return Answer(bool(found.answer), found.sentence, _text(found))
        case _:
            # a new name each time: a user may have completed the TODOs of an earlier draft
            out = request.runs_dir / f"{new_run_id('from-logs')}.yaml"
            zone, clients = request.timezone or None, Path(request.clients) if request.clients else None
            text = draft.from_logs(Path(request.source), out, zone, clients, listener.say)
            return Answer(True, f"the scenario is in {out}", text)


def _text(result: PartsResult) -> str:
    return result.model_dump_json(indent=1)
