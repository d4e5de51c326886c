"""A run while it is driven and judged, from its events: stage, rates, lag, faults and problems."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from chaos.errors import RunDirError
from chaos.run.directory import Run, read_json
from chaos.run.events import Event, StageState, list_stages, now_us, read_events

SERIES = 240
"""Number of the latest progress events that are drawn: about two minutes."""
State = Literal["waiting", "running", "ended", "broke off"]


class LiveStage(BaseModel):
    """One stage. seconds: its length so far, or in all."""

    name: str
    text: str
    state: StageState
    seconds: float
    detail: str = ""


class LiveFault(BaseModel):
    """One fault: the last phase, its outcome as text, and the time of each phase in microseconds."""

    name: str
    phase: str
    words: str
    at_us: dict[str, int]


class Point(BaseModel):
    """One progress event. behind: acknowledged records that a group has not got yet, by group."""

    at_us: int
    acked: int
    acked_per_s: float
    delivered_per_s: float
    delivered: dict[str, int]
    behind: dict[str, int]


class Live(BaseModel):
    """The run now. quiet_s: seconds since the last event; a long audit writes none."""

    run_id: str
    state: State
    text: str
    began_us: int | None = None
    quiet_s: float = 0
    stages: list[LiveStage] = []
    faults: list[LiveFault] = []
    points: list[Point] = []
    notes: list[str] = []
    problems: list[str] = []
    verdict: str = ""
    sentence: str = ""
    has_report: bool = False


def read_live(run: Run) -> Live:
    """Return what the events of a run say now. Lines that are half-written or damaged are left out."""
    events = [e for e in read_events(run) if isinstance(e, dict) and isinstance(e.get("at_us"), int)]
    now = now_us()
    live = Live(run_id=run.run_id, state="waiting", text="prepared, not started")
    live.has_report = run.report.is_file()
    if not events:
        return live
    live.began_us, live.quiet_s = events[0]["at_us"], max(0.0, (now - events[-1]["at_us"]) / 1e6)
    live.stages = _stages(events, now)
    live.faults = _faults(events)
    groups = _groups(run)
    live.points = [p for e in events if e.get("kind") == "progress" and (p := _point(e, groups)) is not None][-SERIES:]
    live.notes = [_text(e.get("words")) for e in events if e.get("kind") == "note"][-20:]
    live.problems = [_text(e.get("words")) for e in events if e.get("kind") == "problem"][-20:]
    last = next((e for e in reversed(events) if e.get("kind") == "verdict"), None)
    if last is not None:
        live.verdict, live.sentence = _text(last.get("verdict")), _text(last.get("sentence"))
    live.state, live.text = _state(live, run)
    return live


def _state(live: Live, run: Run) -> tuple[State, str]:
    if run.result.exists():
        return "ended", "judged"
    going = [stage for stage in live.stages if stage.state == "begin"]
    if going:
        return "running", going[-1].text
    failed = [stage for stage in live.stages if stage.state == "failed"]
    if failed:
        return "broke off", f"{failed[0].text}: failed"
    if any(stage.name == "destroy" for stage in live.stages):
        return "broke off", "it ended before a verdict"
    return "running", "between two stages"


def _stages(events: list[Event], now: int) -> list[LiveStage]:
    """Return the stages in the order of their begin; of a repeated stage, the last execution."""
    return [
        LiveStage(
            name=_text(s.name),
            text=_text(s.text),
            state=s.state,
            seconds=s.seconds,
            detail=_text(s.detail),
        )
        for s in list_stages(events, now)
    ]


def _faults(events: list[Event]) -> list[LiveFault]:
    faults: dict[str, LiveFault] = {}
    for e in events:
        if e.get("kind") != "fault":
            continue
        name, phase = _text(e.get("fault")), _text(e.get("phase"))
        before = faults.get(name)
        at = {**(before.at_us if before else {}), phase: e["at_us"]}
        faults[name] = LiveFault(name=name, phase=phase, words=_text(e.get("words")), at_us=at)
    return list(faults.values())


def _groups(run: Run) -> set[str]:
    """Return the groups with a lag that counts tell, as `progress` names them: all producers write one topic."""
    try:
        scenario = read_json(run.resolved, "scenario")["scenario"]
        if len({producer["topic"] for producer in scenario["producers"]}) != 1:
            return set()
        groups = [consumer for consumer in scenario["consumers"] if consumer["mode"] != "assign"]
        return {name for consumer in groups for name in (consumer["name"], f"group {consumer['group']}")}
    except (RunDirError, KeyError, TypeError):
        return set()


def _point(e: Event, groups: set[str]) -> Point | None:
    try:
        return Point(
            at_us=e["at_us"],
            acked=e["acked"],
            acked_per_s=e["acked_per_s"],
            delivered_per_s=e["delivered_per_s"],
            delivered=e["delivered"],
            behind={name: max(0, e["acked"] - n) for name, n in e["delivered"].items() if name in groups},
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def _text(value: Any) -> str:
    return value[:2000] if isinstance(value, str) else ""
