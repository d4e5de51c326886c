"""`make bench`: the figures checks/README.md states, measured on this machine; a table, then JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench import (
    bench_cli,
    bench_clients,
    bench_cluster,
    bench_disk,
    bench_pages,
    bench_proxy,
    bench_runs,
    bench_runtimes,
    bench_verdicts,
    bench_wire,
)

BENCHES: dict[str, Callable[[], dict[str, Any]]] = {
    "cli": bench_cli.measure,
    "cluster": bench_cluster.measure,
    "clients": bench_clients.measure_here,
    "disk": bench_disk.measure,
    "pages": bench_pages.measure,
    "proxy": bench_proxy.measure,
    "capture": bench_proxy.measure_capture,
    "runs": bench_runs.measure,
    "runtimes": bench_runtimes.measure,
    "verdicts": bench_verdicts.measure,
    "verdicts-alone": bench_verdicts.measure_alone,
    "wire": bench_wire.measure,
}
LONG = {"verdicts-alone"}
"""Benches of more than half an hour, which run only when they are named."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "only", nargs="*", metavar="BENCH", help=f"one of {', '.join(BENCHES)}; all but {', '.join(LONG)} when left out"
    )
    chosen = parser.parse_args().only or [name for name in BENCHES if name not in LONG]
    if unknown := set(chosen) - set(BENCHES):
        parser.error(f"no bench {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    console = Console()
    measured = {}
    for name in chosen:
        console.print(f"measuring {name} …")
        measured[name] = BENCHES[name]()
    table = Table("measure", "value", box=None)
    for name, values in _flat(measured):
        table.add_row(name, str(values))
    console.print(table)
    print(json.dumps(measured, indent=1))


def _flat(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        return [(prefix, value)]
    return [row for key, inner in value.items() for row in _flat(inner, f"{prefix}.{key}" if prefix else str(key))]


if __name__ == "__main__":
    main()
