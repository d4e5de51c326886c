"""The audit of long runs: time and memory against the number of records, beside the published methods of others.

    python -m tests.bench.bench_audit [--sizes 1M,3M,10M,30M,100M] [--rich 10M] [--recreated 10M] [--compacted 10M]
        [--others 1M,3M,10M] [--out DIR]

Each history of `histories` is generated, audited in a fresh process (first cold, then once more, warm) and by the
methods of `others`, each in a separate process, which is ended at 6 GiB or after 180 s. A process and all below it
are watched from outside: memory is their PSS, which shares out what they share and counts no page cache, CPU what all
of them used. The start of Spark is counted apart. A time counts only if exactly what was planted was found; otherwise
the bench fails. 100M records take some 1 GB of disk and minutes to generate.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from chaos.run.directory import Run
from tests.bench import histories, others
from tests.bench.histories import Kind, Plan

ROOT = Path(__file__).parents[2]
SAMPLE_S, SAY_S = 1.0, 5.0
MOST_BYTES, MOST_OTHERS_S, MOST_AUDIT_S = 6 << 30, 180.0, 1800.0
MOST_100M_S, MOST_10M_S = 120.0, 20.0
"""Seconds that the cold audit of a clean history may take."""
MOST_GROWTH, MOST_SWELL = 12.0, 1.25
"""Time and memory of 100M against 10M."""
MOST_OF_KIND: dict[Kind, float] = {"rich": 2.0, "recreated": 1.5, "compacted": 1.5}
"""Time of a history of a kind against a clean one."""
KINDS: dict[Kind, str] = {
    "rich": "histories full of anomalies",
    "recreated": "histories with a topic that is deleted and created again",
    "compacted": "histories with a compacted topic of many keys",
}
Result = dict[str, Any]


@dataclass
class Watched:
    """A process and all below it. phases: what it reported, with CPU seconds and the highest PSS since the last."""

    argv: list[str]
    most_s: float
    most_bytes: int
    name: str
    phases: dict[str, Result] = field(default_factory=dict)
    stopped: str = ""

    def run(self) -> Watched:
        argv = [sys.executable, "-m", *self.argv]
        self.began, self.cpu, self.said, self.peak = time.monotonic(), 0.0, 0.0, _Peak()
        with tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(
                argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
            self.root = psutil.Process(child.pid)
            listener = Thread(target=self._listen, args=(child.stdout,))
            listener.start()
            try:
                while child.poll() is None and not self.stopped:
                    self._look()
                    time.sleep(SAMPLE_S)
            finally:
                _end(self.root)
                child.wait()
                listener.join()
            if child.returncode and not self.stopped:
                errors.seek(0)
                self.stopped = (errors.read().strip().splitlines() or [f"exit {child.returncode}"])[-1]
        return self

    def _listen(self, lines: Any) -> None:
        """Each line of the process's output is a JSON object that ends a phase."""
        for line in (line for line in lines if line.startswith("{")):
            reported = json.loads(line)
            cpu, peak, self.peak = _cpu_s(self.root), self.peak, _Peak()
            self.phases[reported.pop("phase")] = reported | {"cpu_s": cpu - self.cpu} | peak.in_mib()
            self.cpu = cpu

    def _look(self) -> None:
        took = time.monotonic() - self.began
        pss = self.peak.look(self.root)
        if pss > self.most_bytes:
            self.stopped = f"over {self.most_bytes >> 30} GiB after {took:.0f} s"
        elif took > self.most_s:
            self.stopped = f"not done after {self.most_s:.0f} s"
        if took - self.said > SAY_S:
            self.said = took
            _say(f"  {self.name}: {took:.0f} s, {pss / 2**30:.2f} GiB")


@dataclass
class _Peak:
    """The most memory seen: in all, of the JVM, and of Python."""

    total: int = 0
    jvm: int = 0
    python: int = 0

    def look(self, root: psutil.Process) -> int:
        jvm = python = 0
        for process in _family(root):
            with suppress(psutil.Error):
                pss = process.memory_full_info().pss
                jvm, python = (jvm + pss, python) if process.name() == "java" else (jvm, python + pss)
        self.total, self.jvm, self.python = max(self.total, jvm + python), max(self.jvm, jvm), max(self.python, python)
        return jvm + python

    def in_mib(self) -> Result:
        return {"peak_mib": self.total >> 20, "jvm_mib": self.jvm >> 20, "python_mib": self.python >> 20}


def _family(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def _cpu_s(root: psutil.Process) -> float:
    """CPU seconds of all that live and, through who waited for them, of all that lived."""
    total = 0.0
    for process in _family(root):
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


def _end(root: psutil.Process) -> None:
    """End what is left of a process and all below it."""
    for process in reversed(_family(root)):
        with suppress(psutil.Error):
            process.kill()


def _one(folder: Path, plan: Plan) -> None:
    """Start Spark and audit a history twice, a line of JSON after each; what the process of an audit does."""
    began = time.monotonic()
    from checks.audit import audit
    from checks.spark.parts import warm
    from checks.spark.session import spark_session

    spark = spark_session()
    warm(spark)  # as `run` does while it still drives: the workers belong to the session
    report("session", began)
    run = Run(folder)
    for phase in ("cold", "warm"):
        began = time.monotonic()
        audit(spark, run, histories.resolved(plan))
        counts = {(r["name"], r["scope"]): r["value"] for r in pq.read_table(run.audit / "counts").to_pylist()}
        rows = sum(counts["rows_audited", table] for table in ("sends", "deliveries", "commits", "log"))
        found = others.found_by_audit(pq.read_table(run.audit / "summary").to_pylist())
        of_topics = {name: sum(n for (c, _), n in counts.items() if c == name) for name in ("sent", "superseded")}
        found |= {"superseded": of_topics["superseded"]} if of_topics["superseded"] else {}
        report(phase, began, found=found, sent=of_topics["sent"], rows=rows)
    spark.stop()


def report(phase: str, began: float, **more: Any) -> None:
    print(json.dumps({"phase": phase, "seconds": time.monotonic() - began} | more), flush=True)


class Bench:
    """All measurements, one history at a time."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.audits: list[Result] = []
        self.others: list[Result] = []
        self.wrong: list[str] = []

    def history(self, plan: Plan) -> None:
        """Generate one history, measure everybody on it, remove it."""
        folder = self.folder / plan.run_id
        planted = self._generated(folder, plan)
        size = sum(p.stat().st_size for p in (folder / "ledger").rglob("*.parquet") if p.is_file()) / 1e6
        try:
            self._audit(folder, plan, planted, size)
            for method in others.METHODS if plan.records in self.options.others else ():
                self._other(method, folder, plan)
        finally:
            if not (self.options.keep or self.options.reuse):
                shutil.rmtree(folder)

    def _generated(self, folder: Path, plan: Plan) -> Result:
        planted = folder / "planted.json"
        if not planted.exists():
            shutil.rmtree(folder, ignore_errors=True)
            argv = ["tests.bench.histories", str(folder), str(plan.records), plan.kind]
            _say(f"{plan.run_id}: generating")
            made = Watched(argv, MOST_AUDIT_S, MOST_BYTES, "generating").run()
            if made.stopped:
                raise SystemExit(f"generating {plan.run_id}: {made.stopped}")
            planted.write_text(json.dumps(made.phases["generated"]["planted"]))
        found: Result = json.loads(planted.read_text())
        return found

    def _audit(self, folder: Path, plan: Plan, planted: Result, size: float) -> None:
        _say(f"{plan.run_id}: auditing")
        argv = ["tests.bench.bench_audit", "--one", str(folder), str(plan.records), plan.kind]
        done = Watched(argv, MOST_AUDIT_S, 1 << 40, "audit").run()
        expected = meant(planted)
        for phase in ("cold", "warm"):
            result = done.phases.get(phase, {})
            if done.stopped or result.get("found") != expected or result.get("sent") != plan.records:
                self.wrong.append(f"{plan.run_id}, {phase}: {done.stopped or result}, planted {expected}")
        about = {"records": plan.records, "kind": plan.kind, "ledger_mb": round(size), "load": os.getloadavg()[0]}
        self.audits.append(about | {"planted": expected, **done.phases})

    def _other(self, method: str, folder: Path, plan: Plan) -> None:
        _say(f"{plan.run_id}: {method}")
        done = Watched(["tests.bench.others", method, str(folder)], MOST_OTHERS_S, MOST_BYTES, method).run()
        taken = done.phases.get("audit") or done.peak.in_mib()
        stopped = "" if "audit" in done.phases else done.stopped
        about = {"method": method, "records": plan.records, "kind": plan.kind, "stopped": stopped}
        self.others.append(about | taken)


MEANT = {
    "lost_write": "lost",
    "duplicate_write": "duplicated",
    "offset_reuse": "reused",
    "duplicate_delivery.legal": "redelivered",
    "superseded": "superseded",
}
"""What the audit has to find, by what was planted."""


def meant(planted: Result) -> dict[str, int]:
    """What the audit has to find in a history of this `Planted`."""
    return {name: planted[key] for name, key in MEANT.items() if planted[key]}


def targets(audits: list[Result]) -> dict[str, Result]:
    """Each target with what was measured and whether it is met; `ok` is None where it was not measured."""
    cold = {(a["records"], a["kind"]): a["cold"] for a in audits if "cold" in a}
    large, small = (100_000_000, "clean"), (10_000_000, "clean")

    def of(what: str, plan: tuple[int, str], by: tuple[int, str] | None = None) -> float | None:
        if plan not in cold or (by and by not in cold):
            return None
        return float(cold[plan][what] / (cold[by][what] if by else 1))

    measured = {
        "100M_s": (MOST_100M_S, of("seconds", large)),
        "10M_s": (MOST_10M_S, of("seconds", small)),
        "100M_mib": (MOST_BYTES >> 20, of("peak_mib", large)),
        "growth_10M_to_100M": (MOST_GROWTH, of("seconds", large, small)),
        "memory_10M_to_100M": (MOST_SWELL, of("peak_mib", large, small)),
    }
    for n, kind in sorted(cold):
        if kind != "clean":
            measured[f"{kind}_{_short(n)}"] = MOST_OF_KIND[kind], of("seconds", (n, kind), (n, "clean"))
    return {
        name: {"most": most, "measured": value and round(value, 2), "ok": None if value is None else value <= most}
        for name, (most, value) in measured.items()
    }


def shown(result: Result) -> list[Table]:
    """The tables: the audit by size, the others by size, the targets, and who sees what."""
    cost = "cold s", "CPU s", "peak MiB", "JVM MiB", "Python MiB"
    size = Table("records", "rows", "ledger MB", "Spark s", *cost, "warm s", "load", box=None)
    for a in result["audits"]:
        if cold := a.get("cold"):
            numbers = [cold["rows"], a["ledger_mb"], a["session"]["seconds"], cold["seconds"], cold["cpu_s"]]
            numbers += [cold[k] for k in ("peak_mib", "jvm_mib", "python_mib")]
            numbers += [a.get("warm", {}).get("seconds", 0.0), a["load"]]
            size.add_row(_label(a), *(f"{n:,.1f}" if isinstance(n, float) else f"{n:,}" for n in numbers))
    other = Table("method", "records", "s", "CPU s", "peak MiB", "found", box=None)
    for o in result["others"]:
        took = [o["stopped"], ""] if o["stopped"] else [f"{o['seconds']:.1f}", f"{o['cpu_s']:.1f}"]
        other.add_row(o["method"], _label(o), *took, f"{o['peak_mib']:,}", _counts(o["found"]) if "found" in o else "-")
    goal = Table("target", "most", "measured", "met", box=None)
    for name, t in result["targets"].items():
        goal.add_row(name, f"{t['most']:g}", str(t["measured"]), {True: "yes", False: "NO", None: "-"}[t["ok"]])
    sight = Table("what happened", "kafkatest", "Jepsen-style", "Aftershock", title="found, by count")
    for name, by in result["sight"].items():
        sight.add_row(others.SHOWN[name], *(_counts(by[m]) for m in ("kafkatest", "jepsen", "aftershock")))
    return [size, other, goal, sight]


def plotted(result: Result) -> str:
    """Time and memory against size, as a page that needs no network."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    lines: dict[str, list[tuple[int, float, int]]] = {}
    for a in result["audits"]:
        for phase in ("cold", "warm") if a["kind"] == "clean" else ("cold",):
            if p := a.get(phase):
                name = f"Aftershock, {phase if a['kind'] == 'clean' else a['kind']}"
                lines.setdefault(name, []).append((a["records"], p["seconds"], p["peak_mib"]))
    for o in result["others"]:
        if not o["stopped"] and o["kind"] == "clean":
            lines.setdefault(o["method"], []).append((o["records"], o["seconds"], o["peak_mib"]))
    figure = make_subplots(1, 2, subplot_titles=("seconds", "peak MiB"))
    for i, (name, points) in enumerate(lines.items()):
        x, *ys = zip(*sorted(points), strict=True)
        line = {"color": f"hsl({i * 360 // len(lines)}, 60%, 40%)"}
        for column, y in enumerate(ys, start=1):
            trace = go.Scatter(x=x, y=y, name=name, line=line, legendgroup=name, showlegend=column == 1)
            figure.add_trace(trace, 1, column)
    figure.update_xaxes(type="log", title="records sent")
    figure.update_yaxes(type="log")
    page: str = figure.to_html(include_plotlyjs=True)
    return page


def _label(a: Result) -> str:
    return _short(a["records"]) + (f" {a['kind']}" if a["kind"] != "clean" else "")


def _counts(found: dict[str, int] | None) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in (found or {}).items()) or "nothing"


def _size(text: str) -> int:
    if not (match := re.fullmatch(r"(\d+)([kM]?)", text)):
        raise argparse.ArgumentTypeError(f"{text} is no size; write 500k or 10M")
    return int(match[1]) * {"": 1, "k": 1_000, "M": 1_000_000}[match[2]]


def _sizes(text: str) -> list[int]:
    return [_size(size) for size in text.split(",") if size]


def _short(records: int) -> str:
    return f"{records // 1_000_000}M" if records % 1_000_000 == 0 else f"{records // 1000}k"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(options: argparse.Namespace) -> tuple[Result, list[str]]:
    """Everything, and what was wrong with it."""
    plans = [Plan(n) for n in options.sizes] + [Plan(n, kind) for kind in KINDS for n in getattr(options, kind)]
    with tempfile.TemporaryDirectory(prefix="bench-audit-") as temporary:
        bench = Bench(options, options.reuse or (options.out if options.keep else Path(temporary)))
        for plan in sorted(plans, key=lambda p: (p.records, p.kind)):
            bench.history(plan)
        _say(f"{len(others.SHOWN)} small histories, each by every method")
        sight = others.compare(Path(temporary) / "sight")
    result = {"cpus": os.cpu_count(), "targets": targets(bench.audits), "audits": bench.audits}
    return result | {"others": bench.others, "sight": sight}, bench.wrong


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=_sizes, default="1M,3M,10M,30M,100M", help="clean histories")
    for kind, about in KINDS.items():
        parser.add_argument(f"--{kind}", type=_sizes, default="10M", help=about)
    parser.add_argument("--others", type=_sizes, default="1M,3M,10M", help="sizes for the methods of others")
    parser.add_argument("--out", type=Path, help="where JSON and plot go; a new temporary directory when left out")
    parser.add_argument("--keep", action="store_true", help="leave the histories in --out")
    parser.add_argument("--reuse", type=Path, metavar="DIR", help="use the histories in DIR, and leave new ones there")
    parser.add_argument("--one", nargs=3, metavar=("DIR", "RECORDS", "KIND"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = _options()
    if options.one:
        folder, records, kind = options.one
        _one(Path(folder), Plan(int(records), kind))
        return
    options.out = (options.out or Path(tempfile.mkdtemp(prefix="bench-audit-out-"))).absolute()
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        result, wrong = measure(options)
    except KeyboardInterrupt:
        raise SystemExit("interrupted; what was begun is ended and removed") from None
    (options.out / "audit.json").write_text(json.dumps(result, indent=1))
    (options.out / "audit.html").write_text(plotted(result))
    for table in shown(result):
        Console(width=180).print(table, "")
    print(f"{options.out}/audit.json and audit.html")
    if wrong:
        raise SystemExit("not what was planted, so the times mean nothing:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
