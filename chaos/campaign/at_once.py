"""How many runs with an application go at once if the user does not say: most of the time of a run is waiting.

Each run has its own brokers, addresses, folders and receivers. What a scenario or an instance uses outside of them, two
runs at once would share, so they go one after another then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import psutil

from chaos.run.directory import Run
from chaos.run.events import OUTSIDE, read_events
from chaos.scenario.model import Scenario
from chaos.setup.names import PRIMARY

MOST = 4
"""One judge takes what more of them would drive."""
EACH_BYTES = 3 << 30
"""Free memory for each run: brokers, relay, observer and a small application."""


def chosen(scenario: Scenario | None, say: Callable[[str], None]) -> int:
    """Return how many runs go at once, and say it. scenario: the one with the application, if there is one."""
    if scenario is not None and (reason := shared(scenario)):
        say(f"one run at a time, because {reason}")
        return 1
    if (jobs := runs_at_once()) > 1:
        say(f"{jobs} runs at once; --jobs 1 for one after another")
    return jobs


def runs_at_once() -> int:
    """Return how many runs this machine takes at once: one for each processor, as far as the memory goes."""
    return max(1, min(os.cpu_count() or 1, MOST, int(psutil.virtual_memory().available) // EACH_BYTES))


def shared(scenario: Scenario) -> str:
    """Return what runs of a scenario would share, as a phrase; empty if it names nothing."""
    return next(_shared(scenario), "")


def _shared(scenario: Scenario) -> Iterator[str]:
    clusters = {PRIMARY: scenario.cluster, **scenario.clusters}
    yield from (
        f"cluster {name} is not made of JVMs of the run" for name, c in clusters.items() if c.driver != "process"
    )
    yield from (f"{app.name} is external" for app in scenario.apps if app.external)
    yield from (f"effect {e.name} is in a database outside of the run" for e in scenario.effects if e.sql and not e.app)
    yield from (f"effect {e.name} is in files" for e in scenario.effects if e.files)
    yield from (
        f"effect {e.name} is received at port {e.http.port}" for e in scenario.effects if e.http and e.http.port
    )
    for producer in scenario.producers:
        if (rows := producer.rows) and not rows.app:
            yield f"{producer.name} writes rows outside of the run"


def used_outside(run: Run) -> str:
    """Return what instances used that the same ones in another run would use, too, as a phrase; empty for nothing."""
    return "; ".join(dict.fromkeys(event["words"] for event in read_events(run) if event.get("kind") == OUTSIDE))
