"""One request and one answer for all incident commands: the interface of the DAG `incident_reproduction`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from chaos.errors import PASS, UsageError
from chaos.incident.subject import SubjectRequest
from chaos.lab.progress import ProgressListener
from chaos.run.directory import new_run_id


@dataclass(frozen=True)
class Reproduction:
    """An action on a source; the other values are those of the action's command, and other actions ignore them.

    source: a bundle, a run directory or a scenario; a folder of broker logs for `from-logs`.
    """

    action: str
    source: str
    runs_dir: Path
    variant: str = ""
    runs: int = 10
    anomaly: str = ""
    tries: int = 1
    budget: str = "60,60m"
    kafka: str | None = None
    client: str | None = None
    seed: int | None = None
    overrides: tuple[str, ...] = ()
    timezone: str = ""
    clients: str = ""

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Reproduction:
        """Return the request of a DAG's params; params that are not of a reproduction are ignored."""
        names = {field.name for field in fields(cls)}
        values = {name: value for name, value in params.items() if name in names}
        overrides = tuple(params.get("overrides") or ())
        return cls(**{**values, "runs_dir": Path(params["runs_dir"]), "overrides": overrides})

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

    @property
    def subject(self) -> SubjectRequest:
        """The subject of the action, with all overrides."""
        return SubjectRequest(self.source, self.variant, self.overrides, self.seed)


@dataclass(frozen=True)
class Answer:
    """Whether the question was answered, a sentence, and the full result as text for a log."""

    answered: bool
    sentence: str
    detail: str = ""


def reproduce(request: Reproduction, listener: ProgressListener) -> Answer:
    """Run an action. Raises `UsageError` for values that do not fit together, and as the action's command."""
    request.check()
    request.runs_dir.mkdir(parents=True, exist_ok=True)
    return ACTIONS[request.action](request, listener)


def _replay(request: Reproduction, listener: ProgressListener) -> Answer:
    from chaos.incident.replay import ReplayRequest, replay

    result = replay(ReplayRequest(request.source, request.runs_dir), listener)
    return Answer(result.same is True, result.sentence, _text(result.as_json()))


def _repeat(request: Reproduction, listener: ProgressListener) -> Answer:
    from chaos.incident.repeat import RepeatRequest, repeat

    result = repeat(RepeatRequest(request.subject, request.runs, request.runs_dir), listener)
    unsure = len(result.inconclusive)
    return Answer(not unsure, f"{unsure} of {len(result.runs)} runs are inconclusive", _text(result.as_json()))


def _ab(request: Reproduction, listener: ProgressListener) -> Answer:
    from chaos.incident.ab import ABRequest, ab

    subject = SubjectRequest(request.source, request.variant, seed=request.seed)
    result = ab(
        ABRequest(subject, request.overrides, request.runs_dir),
        lambda event: listener.run_event(request.source, event),
        listener.say,
    )
    return Answer(result.verdict != "inconclusive", result.sentence, f"{result.verdict}: {result.sentence}")


def _shrink(request: Reproduction, listener: ProgressListener) -> Answer:
    from chaos.incident.shrink import ShrinkRequest, shrink

    asked = ShrinkRequest(request.subject, request.anomaly, request.runs_dir, request.tries, request.budget)
    result = shrink(asked, listener)
    return Answer(bool(result.text), result.sentence, f"# {result.size}; {result.runs} runs\n{result.text}")


def _bisect(request: Reproduction, listener: ProgressListener) -> Answer:
    from chaos.incident.bisect import BisectRequest, bisect

    anomaly = request.anomaly or None
    asked = BisectRequest(request.subject, request.runs_dir, request.kafka, request.client, anomaly, request.tries)
    result = bisect(asked, listener)
    return Answer(result.exit_code == PASS, result.sentence, _text(result.as_json()))


def _from_logs(request: Reproduction, listener: ProgressListener) -> Answer:
    from chaos.incident.from_logs import FromLogsRequest, from_logs

    # a new name each time: a user may have completed the TODOs of an earlier draft
    out = request.runs_dir / f"{new_run_id('from-logs')}.yaml"
    clients = Path(request.clients) if request.clients else None
    text = from_logs(FromLogsRequest(Path(request.source), out, request.timezone or None, clients), listener.say)
    return Answer(True, f"the scenario is in {out}", text)


ACTIONS: dict[str, Callable[[Reproduction, ProgressListener], Answer]] = {
    "replay": _replay,
    "repeat": _repeat,
    "ab": _ab,
    "shrink": _shrink,
    "bisect": _bisect,
    "from-logs": _from_logs,
}


def _text(result: dict[str, object]) -> str:
    return json.dumps(result, indent=1)
