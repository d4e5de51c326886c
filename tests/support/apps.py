"""Applications of a run without a broker: real processes of a small scenario."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset

from chaos.apps.supervisor import Applications
from chaos.kafka.security import Access
from chaos.ledger.seal import seal
from chaos.processes.process import find_marked
from chaos.run.directory import Run
from chaos.run.events import EventLog, read_events
from chaos.scenario.load import parse
from chaos.scenario.resolve import check_programs, resolve
from chaos.wait import wait_until

WAITS = "import signal, time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
UP = {"log": "^up"}
VALUE = {"template": '{{"order_id": "{id}"}}'}
TIMEOUT_S = 30.0


def scenario_of(faults: Sequence[dict[str, Any]] = (), **app: Any) -> dict[str, Any]:
    """Return a scenario with one application and faults of it."""
    given = {"name": "billing", "command": [sys.executable, "-c", WAITS], "ready": UP} | app
    return {
        "title": "t",
        "topics": [{"name": "orders"}],
        "producers": [{"name": "shop", "topic": "orders", "value": VALUE}],
        "effects": [{"name": "done", "log": {"app": "billing", "pattern": r"done (?P<id>\S+)"}}],
        "apps": [given | {"env": {"BROKERS": "{bootstrap}"} | given.get("env", {})}],
        "faults": list(faults),
        "limits": {"clients": "20s"},
    }


class Started:
    """Applications with their run, which leave no process behind."""

    def __init__(
        self, folder: Path, access: Access | None = None, more: Mapping[str, Any] | None = None, **app: Any
    ) -> None:
        folder.mkdir(exist_ok=True)
        file = folder / "mine.yaml"
        file.write_text(json.dumps(scenario_of(**app)))
        self.scenario = parse(file.read_text(), str(file))
        check_programs(self.scenario, file)
        self.run = Run.create(folder, "r1")
        resolved = resolve(self.scenario, run_id="r1", name="mine", created_us=1, seed=1, overrides=[])
        self.events = EventLog(self.run)
        self.apps = Applications(
            self.run, resolved, lambda name: f"front-of-{name}:1", access, self.events, None, list, **(more or {})
        )  # type: ignore[arg-type]

    def __enter__(self) -> Started:
        self.apps.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.apps.__exit__(None, None, None)
        assert [p for p in find_marked() if p.run_dir == self.run.path] == []

    def rows(self) -> list[dict[str, Any]]:
        """End all, and return the rows of the ledger table `apps`, with their details."""
        self.apps.__exit__(None, None, None)
        seal(self.run.ledger)
        rows = pyarrow.dataset.dataset(self.run.ledger / "apps.parquet").to_table().to_pylist()
        return [{**row, "detail": json.loads(row["detail"])} for row in rows]

    def log(self, number: int = 1) -> str:
        """Return the output of an instance."""
        return (self.run.logs / f"billing-{number}.log").read_text()

    def notes(self) -> str:
        """Return the notes of the run."""
        return " ".join(str(e.get("words", "")) for e in read_events(self.run))


def eventually(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    wait_until(condition, TIMEOUT_S, "the condition never held")
