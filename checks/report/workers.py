"""The workers of a run for the report: the clients of each, its clock, and why one is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from checks.evidence import Row
from checks.report.text import duration, natural


@dataclass
class WorkerRow:
    """One worker. beside: whether it is on the machine of the drive, None if that is not recorded.

    clocks: how far its clock was ahead of that of the drive, and the uncertainty, in us, of each comparison.
    lost: why the ledger lacks its rows, empty if it has them.
    """

    name: str
    host: str = ""
    pid: int | None = None
    beside: bool | None = None
    clients: list[str] = field(default_factory=list)
    clocks: list[tuple[int, int]] = field(default_factory=list)
    lost: str = ""

    @property
    def offset(self) -> str:
        """The smallest and the largest offset of the clock; empty if it was never compared."""
        ends = (min(self.clocks)[0], max(self.clocks)[0]) if self.clocks else ()
        return " to ".join(dict.fromkeys(map(_signed, ends)))

    @property
    def uncertainty(self) -> str:
        """The largest uncertainty of these offsets; empty if the clock was never compared."""
        return f"± {duration(max(u for _, u in self.clocks))}" if self.clocks else ""


def list_workers(rows: Iterable[Row], missing: Mapping[str, str]) -> list[WorkerRow]:
    """Return the workers in the order of their numbers.

    rows: of the table `cluster`, with parsed values. missing: workers without rows in the ledger, and why.
    """
    found = {name: WorkerRow(name) for name in missing}
    for row in rows:
        entity, value = str(row["entity"]), row["value"]
        if not entity.startswith("worker:"):
            continue
        name = entity.removeprefix("worker:")
        worker = found.setdefault(name, WorkerRow(name))
        if row["key"] == "host" and isinstance(value, dict):
            worker.host, worker.pid = str(value.get("name", "")), value.get("pid")
            worker.beside = value.get("beside_drive")
        elif row["key"] == "clients" and isinstance(value, list):
            worker.clients = sorted(map(str, value), key=natural)
        elif row["key"] == "clock" and isinstance(value, list) and len(value) >= 2:
            worker.clocks.append((int(value[0]), int(value[1])))
    for name, reason in missing.items():
        found[name].lost = reason
    return sorted(found.values(), key=lambda worker: natural(worker.name))


def places(workers: Iterable[WorkerRow]) -> dict[str, str]:
    """Return the worker of each client."""
    return {client: worker.name for worker in workers for client in worker.clients}


def _signed(us: int) -> str:
    sign = "+" if us > 0 else "\N{MINUS SIGN}" if us < 0 else ""
    return f"{sign}{duration(abs(us))}"
