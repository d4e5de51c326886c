"""What the history keeps of a run, read from its directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chaos.run.directory import Run
from chaos.run.events import read_events, stages_broken_off
from chaos.run.result import RunSummary, count_anomalies, describe_anomalies
from chaos.scenario.resolve import Resolved, read

_DEEPEST = 3
"""How far below the folder of runs a run directory lies: `runs/<catalogue>/<run>`, `runs/<A/B>/<side>`."""
_NOT_THE_SET_UP = {"title", "description", "expect", "limits", "schedule", "seed", "variants"}


@dataclass(frozen=True)
class Time:
    """One measured time of a run, in microseconds: `p99` of `ack_latency` in topic `orders`, for a fault or none."""

    metric: str
    scope: str
    fault: str
    stat: str
    value_us: int


@dataclass(frozen=True)
class Entry:
    """One run. `key` names it whatever its directory is called by now; `digest` changes when it is judged anew."""

    key: str
    digest: str
    run_id: str
    scenario: str
    variant: str
    setup: str
    title: str
    verdict: str
    sentence: str
    seen: str
    seed: int
    kafka: str
    client: str
    began_us: int
    ended_us: int
    run_dir: str
    command: str
    times: tuple[Time, ...] = field(default=(), repr=False)


def entry(run: Run) -> Entry:
    """What is kept of a run that was judged. Raises `RunDirError` where there is nothing that can be read."""
    result = RunSummary.read(run)
    resolved = read(run)
    prefix = resolved.prefix
    times = tuple(
        Time(m.metric, _plain(m.scope.replace(prefix, "") if prefix else m.scope), _plain(m.fault), m.stat, m.value_us)
        for m in result.metrics
        if m.stat != "count"
    )
    return Entry(
        key=_key(result.run_id, result.scenario, result.seed, result.began_us),
        digest=_digest(result.model_dump(mode="json", exclude={"ended_us"})),
        run_id=result.run_id,
        scenario=_name(result.scenario),
        variant=resolved.variant,
        setup=setup(resolved),
        title=_plain(result.title),
        verdict=result.verdict,
        sentence=_plain(result.sentence),
        seen=describe_anomalies(count_anomalies(result.totals)),
        seed=result.seed,
        kafka=result.versions.get("kafka", ""),
        client=result.versions.get("confluent-kafka", ""),
        began_us=result.began_us,
        ended_us=result.ended_us,
        run_dir=_plain(str(run.path)),
        command=_plain(result.command),
        times=times,
    )


def broken_off(run: Run) -> Entry | None:
    """What is kept of a run that has no result: an inconclusive one, with what broke off; None if it never began.

    If it is judged later on, it is the same run by its key. Raises `RunDirError` where it cannot be read.
    """
    events = read_events(run)
    if not events:
        return None
    resolved = read(run)
    began_us = min(e["at_us"] for e in events)
    stage, why = next(iter(stages_broken_off(events).items()), ("", ""))
    words = f"It broke off in {stage}: {why}" if stage else "It broke off before its verdict, and left no reason."
    sentence = " ".join(words.split())  # what a broker said last may be several lines
    return Entry(
        key=_key(resolved.run_id, resolved.name, resolved.seed, began_us),
        digest=_digest(["broken off", sentence]),
        run_id=resolved.run_id,
        scenario=_name(resolved.name),
        variant=resolved.variant,
        setup=setup(resolved),
        title=_plain(resolved.scenario.title),
        verdict="inconclusive",
        sentence=_plain(sentence),
        seen="not known",
        seed=resolved.seed,
        kafka=resolved.versions.get("kafka", ""),
        client=resolved.versions.get("confluent-kafka", ""),
        began_us=began_us,
        ended_us=max(e["at_us"] for e in events),
        run_dir=_plain(str(run.path)),
        command=_plain(resolved.command()),
    )


def found_in(folder: Path) -> Iterator[Run]:
    """The run directories with a result in a folder, or the folder itself if it is one; by path."""
    for depth in range(_DEEPEST + 1):
        for path in sorted(folder.glob("/".join(["*"] * depth + ["result.json"]))):
            if (path.parent / "resolved.json").is_file():  # else the whole of an A/B run: its sides are what was run
                yield Run(path.parent.absolute())


def setup(resolved: Resolved) -> str:
    """A digest of what is run, by which runs can be compared: clusters, topics, clients, faults and their settings.

    The Kafka release is not in it, for what a new one changes is what a trend has to show; neither are the contract,
    time-outs and words. Only what is not a default counts, so that a field which is new in Aftershock changes nothing.
    """
    data = resolved.scenario.model_dump(mode="json", exclude=_NOT_THE_SET_UP, exclude_defaults=True)
    data["cluster"] = {k: v for k, v in data.get("cluster", {}).items() if k not in ("kafka", "metadata")}
    text = json.dumps(data, sort_keys=True)
    if resolved.prefix:
        text = text.replace(resolved.prefix, "")
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _key(run_id: str, scenario: str, seed: int, began_us: int) -> str:
    """What names a run, judged or not."""
    return _digest([run_id, scenario, seed, began_us])


def _name(scenario: str) -> str:
    """A file's name without its place: the same file is run from here and from there."""
    return _plain(Path(scenario).stem if scenario.endswith((".yaml", ".yml")) else scenario)


def _plain(text: str) -> str:
    """Text that any database takes: PostgreSQL has no NUL, and no half of a surrogate pair is UTF-8."""
    return text.replace("\0", "\u2400").encode("utf-8", "replace").decode("utf-8")


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
