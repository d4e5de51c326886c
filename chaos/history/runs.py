"""Reading the entry of a run from its directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from chaos.clients.choice import DEFAULT, RUNTIMES
from chaos.history.entries import Entry, Time
from chaos.run.directory import Run
from chaos.run.events import read_events, stages_broken_off
from chaos.run.result import RunSummary, count_anomalies, describe_anomalies
from chaos.scenario.resolve import Resolved, read

MAX_DEPTH = 3
"""Depth of run directories below the folder of the runs: `runs/<catalogue>/<run>`, `runs/<A/B>/<side>`."""
_NOT_SETUP = {"title", "description", "expect", "promised_differs", "limits", "schedule", "seed", "variants"}


def read_entry(run: Run) -> Entry | None:
    """Return the entry of a run, judged or not; None if it never began. Raises `RunDirError` if it cannot be read."""
    return judged_entry(run) if run.result.exists() else unjudged_entry(run)


def judged_entry(run: Run) -> Entry:
    """Return the entry of a run with a result. Raises `RunDirError` if it cannot be read."""
    result = RunSummary.read(run)
    digest = _digest(result.model_dump(mode="json", exclude={"ended_us"}))
    return _entry(run, read(run), result, digest, describe_anomalies(count_anomalies(result.totals, result.effects)))


def unjudged_entry(run: Run) -> Entry | None:
    """Return the entry of a run without a result: inconclusive, with the stage that failed; None if it never began.

    A later entry with a verdict has the same key. Raises `RunDirError` if the run cannot be read.
    """
    events = read_events(run)
    if not events:
        return None
    resolved = read(run)
    stage, reason = next(iter(stages_broken_off(events).items()), ("", ""))
    sentence = f"It broke off in {stage}: {reason}" if stage else "It broke off before its verdict, and left no reason."
    sentence = " ".join(sentence.split())  # the reason may have several lines
    summary = RunSummary(
        run_id=resolved.run_id,
        scenario=resolved.name,
        title=resolved.scenario.title,
        verdict="inconclusive",
        sentence=sentence,
        seed=resolved.seed,
        command=resolved.command(),
        versions=resolved.versions,
        began_us=min(e["at_us"] for e in events),
        ended_us=max(e["at_us"] for e in events),
    )
    return _entry(run, resolved, summary, _digest(["broken off", sentence]), "not known")


def _entry(run: Run, resolved: Resolved, summary: RunSummary, digest: str, anomalies: str) -> Entry:
    name = summary.scenario
    return Entry(
        key=_digest([summary.run_id, name, summary.seed, summary.began_us]),
        digest=digest,
        run_id=summary.run_id,
        # without the folder, because the same file may be run from several
        scenario=_storable(Path(name).stem if name.endswith((".yaml", ".yml")) else name),
        variant=resolved.variant,
        setup=setup_digest(resolved),
        title=_storable(summary.title),
        verdict=summary.verdict,
        sentence=_storable(summary.sentence),
        seen=anomalies,
        seed=summary.seed,
        kafka=summary.versions.get("kafka", ""),
        client=_clients(resolved, summary.versions),
        began_us=summary.began_us,
        ended_us=summary.ended_us,
        run_dir=_storable(str(run.path)),
        command=_storable(summary.command),
        times=tuple(
            Time(m.metric, _storable(resolved.without_prefix(m.scope)), _storable(m.fault), m.stat, m.value_us)
            for m in summary.metrics
            if m.stat != "count"
        ),
    )


def _clients(resolved: Resolved, versions: dict[str, str]) -> str:
    """Return the release of the client library; with another one than confluent-kafka, the name and release of each."""
    libraries = sorted({client.traits.library for client in resolved.scenario.client_libraries})
    if libraries == [RUNTIMES[DEFAULT].library]:
        return versions.get(libraries[0], "")
    return ", ".join(f"{name} {versions.get(name, '')}" for name in libraries)


def find_runs(folder: Path) -> Iterator[Run]:
    """Yield the judged run directories below a folder, or the folder itself if it is one, by depth and path."""
    for depth in range(MAX_DEPTH + 1):
        for path in sorted(folder.glob("/".join(["*"] * depth + ["result.json"]))):
            if (path.parent / "resolved.json").is_file():  # an A/B directory has a result, but only its sides are runs
                yield Run(path.parent.absolute())


def setup_digest(resolved: Resolved) -> str:
    """Return a digest of the tested set-up: clusters, topics, clients, faults and their settings.

    Runs with equal digests can be compared. The Kafka release is left out, because a trend has to show the effect of a
    new one; so are the contract, limits and texts. Defaults are left out, so that a new field of Aftershock does not
    change the digest.
    """
    data = resolved.scenario.model_dump(mode="json", exclude=_NOT_SETUP, exclude_defaults=True)
    data["cluster"] = {k: v for k, v in data.get("cluster", {}).items() if k not in ("kafka", "metadata")}
    text = resolved.without_prefix(json.dumps(data, sort_keys=True))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _storable(text: str) -> str:
    """Return text without NUL, which PostgreSQL rejects, and without lone surrogates, which are not UTF-8."""
    return text.replace("\0", "\u2400").encode("utf-8", "replace").decode("utf-8")


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
