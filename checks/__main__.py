"""`python -m checks RUN_DIR`: read back, audit, validate and report a run. Offline once its log is read back.

RUN_DIR is a directory, or its URI on any file system that Hadoop supports (see `checks.spark.remote`). Standard output
carries one JSON line for each event and nothing else. Exit codes: 0 pass, 1 fail, 3 inconclusive or a failed stage, 2
not a run directory. The folder of a comparison (`checks.compare`) is compared.

Without RUN_DIR, the command reads run directories from standard input, one a line, and judges them one after another
in the same Spark session; an event `judged` (run_dir, code) follows each. It reads the log of a run back while it
judges earlier ones, because a cluster waits for that; an event `read` (run_dir, complete) follows.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from chaos.compare.model import comparison_in
from chaos.errors import INCONCLUSIVE, PASS, USAGE, AftershockError, RunDirError
from chaos.run.directory import Run
from chaos.run.events import Event, EventLog
from chaos.run.result import EXIT_CODES
from chaos.scenario.resolve import read as read_resolved
from checks import pipeline
from checks.spark import master, remote

ORPHANED = 1
PARENT_S = 0.5
STAGES = ("readback", "audit", "validate", "report")


def main(argv: list[str] | None = None) -> int:
    """Run the stages and return the exit code."""
    options = _options(argv)
    emit = _event_lines()
    if options.owned:
        by_parent = partial(_end_with_parent, options.owned)  # standard input names the runs then
        ends = _end_with_owner if options.run_dir else by_parent
        threading.Thread(target=ends, name="owner", daemon=True).start()
    stages = [stage for stage in STAGES if not options.only or stage in options.only]
    if options.run_dir is None:
        return _serve(stages, options.spark_master, emit)
    if comparison_in(options.run_dir):
        return _compare(Run(Path(options.run_dir)), emit)
    with contextlib.ExitStack() as stack:
        try:
            if options.spark_master:
                master.check(options.spark_master)
            run = _open(options, stages, stack)
            read_resolved(run)
        except AftershockError as e:
            sys.stderr.write(f"{e}\n")
            if remote.is_uri(options.run_dir):  # the caller cannot check a remote file system
                emit({"kind": "problem", "words": str(e)})
            return USAGE if isinstance(e, RunDirError) else e.exit_code
        if "validate" in stages:
            _import_ahead()
        code = _run(run, stages, options.spark_master, emit)
        if isinstance(run, remote.Mirror):
            try:
                run.publish()
            except AftershockError as e:
                emit({"kind": "problem", "words": str(e)})
                return INCONCLUSIVE
    _announce_end(emit)
    return code


def _end_with_owner() -> None:
    """End this process when standard input closes: whoever started it was killed, and nobody reads what it finds."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(ORPHANED)


def _end_with_parent(parent: int) -> None:
    """End this process when its parent has ended: a campaign that goes on runs again what has no verdict.

    parent: its process id. It may have ended before this process could ask who its parent is.
    """
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(PARENT_S)
    os._exit(ORPHANED)


def _compare(run: Run, emit: pipeline.Listener) -> int:
    """Compare the topics that a folder of `compare` asks for."""
    from checks.compare.stage import compare

    try:
        code = compare(run, emit)
    except AftershockError as e:
        emit({"kind": "problem", "words": str(e)})
        return e.exit_code
    _announce_end(emit)
    return code


def _announce_end(emit: pipeline.Listener) -> None:
    """Say why the end takes longer, if it does."""
    if pipeline.keeps_classes():
        emit({"kind": "note", "words": "keeping the classes of Spark (once): it starts faster from now on"})


def _open(options: argparse.Namespace, stages: list[str], stack: contextlib.ExitStack) -> Run:
    """Open the run directory, or a working copy of a remote one after removing the results of the coming stages."""
    if not remote.is_uri(options.run_dir):
        return Run.open(Path(options.run_dir))
    work = options.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aftershock-")))
    run = remote.Mirror.fetch(pipeline.session(options.spark_master), options.run_dir, work)
    results = ["result.json", "junit.xml", "summary.md", "report.html"]
    run.forget((*results, *(["validation.json"] if stages != ["report"] else [])))
    return run


def _run(run: Run, stages: list[str], spark_master: str | None, emit: pipeline.Listener, code: int = PASS) -> int:
    """Run the stages in order and return the exit code. After a failed stage only the report runs, to explain it.

    code: the exit code of the stages before.
    """
    work: dict[str, Callable[..., object]] = {
        "readback": partial(pipeline.readback, master=spark_master),
        "audit": partial(pipeline.audit, master=spark_master),
        "validate": pipeline.validate,
    }
    for stage in stages:
        try:
            if stage == "report":
                result = pipeline.report(run, listener=emit)
                code = EXIT_CODES[result.verdict]
                report = f"{run.where}/{run.report.name}"
                EventLog(run, emit).emit("verdict", verdict=result.verdict, sentence=result.sentence, report=report)
            elif code == PASS:
                work[stage](run, listener=emit)
        except AftershockError as e:
            sys.stderr.write(f"{e}\n")
            code = INCONCLUSIVE
    return code


def _serve(stages: list[str], spark_master: str | None, emit: pipeline.Listener) -> int:
    """Judge each run directory that standard input names, until it ends."""
    spark = None
    with contextlib.suppress(AftershockError):  # the first stage meets the error again and records it
        spark = pipeline.session(spark_master)
        from checks.spark.parts import warm

        warm(spark)
    emit({"kind": "ready"})
    _import_ahead()  # the load may begin meanwhile
    begun: SimpleQueue[_Begun | None] = SimpleQueue()
    reader = (begun, "readback" in stages, spark, emit)
    threading.Thread(target=_read_runs, args=reader, daemon=True, name="readback").start()
    rest = [stage for stage in stages if stage != "readback"]
    while (entry := begun.get()) is not None:
        code = _run(entry.run, rest, spark_master, emit, entry.code) if entry.run else entry.code
        emit({"kind": "judged", "run_dir": entry.run_dir, "code": code})
    _announce_end(emit)
    return PASS


@dataclass(frozen=True)
class _Begun:
    """A run directory, the run (None if it cannot be opened), and the exit code of its read-back."""

    run_dir: str
    run: Run | None
    code: int


def _read_runs(begun: SimpleQueue[_Begun | None], wanted: bool, spark: Any, emit: pipeline.Listener) -> None:
    """Read back each run that standard input names, and put it into the queue; None at the end.

    wanted: whether the read-back is among the stages.
    """
    try:
        for line in sys.stdin:
            entry = _read_back(line.strip(), wanted, spark, emit)
            emit({"kind": "read", "run_dir": entry.run_dir, "complete": entry.code == PASS})
            begun.put(entry)
    finally:
        begun.put(None)


def _read_back(run_dir: str, wanted: bool, spark: Any, emit: pipeline.Listener) -> _Begun:
    """Open a run and read it back."""
    try:
        run = Run.open(Path(run_dir))
        read_resolved(run)
    except AftershockError as e:
        emit({"kind": "problem", "words": str(e)})
        return _Begun(run_dir, None, INCONCLUSIVE)
    try:
        if wanted:
            pipeline.readback(run, listener=emit, spark=spark)
    except AftershockError as e:
        sys.stderr.write(f"{e}\n")
        return _Begun(run_dir, run, INCONCLUSIVE)
    return _Begun(run_dir, run, PASS)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m checks", description="Audit a run directory.")
    parser.add_argument(
        "run_dir", metavar="RUN_DIR", nargs="?", help="a directory, or its URI, such as hdfs://host/runs/x"
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="where to create and keep the working copy of a URI")
    parser.add_argument("--only", nargs="+", choices=STAGES, metavar="STAGE", help=f"only these: {', '.join(STAGES)}")
    parser.add_argument("--spark-master", metavar="URL", help="URL of a Spark master (default: local[*])")
    parser.add_argument("--owned", type=int, metavar="PID", help="end with this process, which started this one")
    return parser.parse_args(argv)


def _event_lines() -> Callable[[Event], None]:
    """Reserve standard output for events: other output (of Spark's JVM, of a library) goes to standard error."""
    out, lock = os.fdopen(os.dup(1), "w", encoding="utf-8"), threading.Lock()
    os.dup2(2, 1)

    def emit(event: Event) -> None:
        try:
            with lock:
                out.write(json.dumps(event) + "\n")
                out.flush()
        except BrokenPipeError:
            pass  # the reader has gone: events.jsonl has the event, and the verdict is still due

    return emit


def _import_ahead() -> None:
    """Import Great Expectations (5 s of CPU time) beside other work.

    Shared packages are imported first: two threads that import the same package at once may block each other.
    """
    for module in ("pandas", "pyarrow.parquet", "pyspark.sql.functions", "checks.readback.stage"):
        importlib.import_module(module)
    ahead = "checks.expectations.validate"
    threading.Thread(target=importlib.import_module, args=(ahead,), daemon=True, name="import-ahead").start()


if __name__ == "__main__":
    exit_code: list[int] = []
    # Python would take two seconds to take apart what Great Expectations and Spark imported; this handler runs last
    atexit.register(lambda: exit_code and os._exit(exit_code[0]))
    exit_code.append(main())
    sys.exit(exit_code[0])
