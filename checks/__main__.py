"""`python -m checks RUN_DIR`: read back, audit, validate and report a run that was driven, offline if its log was read.

RUN_DIR is a directory, or the URI of one on any file system that Hadoop knows (see `remote`). Standard output carries
one JSON line per event and nothing else. Exit codes: 0 pass, 1 fail, 3 inconclusive or a stage that broke off, 2 not a
run directory.

Without RUN_DIR, run directories are read from standard input, a line each, and judged one after another by one Spark
session; an event `judged` (run_dir, code) ends each.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.errors import FAIL, INCONCLUSIVE, PASS, USAGE, AftershockError, RunDirError
from chaos.run.directory import Run
from chaos.run.events import Event, EventLog
from chaos.run.result import Result
from chaos.scenario.resolve import read as read_resolved
from checks import pipeline
from checks.spark import master, remote

STAGES = ("readback", "audit", "validate", "report")
EXIT = {"pass": PASS, "fail": FAIL, "inconclusive": INCONCLUSIVE}


def main(argv: list[str] | None = None) -> int:
    """Run the stages and return the exit code."""
    options = _options(argv)
    tell = _event_lines()
    wanted = [stage for stage in STAGES if not options.only or stage in options.only]
    if options.run_dir is None:
        return _serve(wanted, options.spark_master, tell)
    with contextlib.ExitStack() as stack:
        try:
            if options.spark_master:
                master.check(options.spark_master)
            run = _open(options, wanted, stack)
            read_resolved(run)
        except AftershockError as e:
            sys.stderr.write(f"{e}\n")
            if remote.is_uri(options.run_dir):  # who started this could not look there
                tell({"kind": "problem", "words": str(e)})
            return USAGE if isinstance(e, RunDirError) else e.exit_code
        if "validate" in wanted:
            _import_ahead()
        if options.when_told and not _told_to_begin(options.spark_master, tell):
            return INCONCLUSIVE
        code = _run(run, wanted, options.spark_master, tell)
        if isinstance(run, remote.Mirror):
            try:
                run.publish()
            except AftershockError as e:
                tell({"kind": "problem", "words": str(e)})
                return INCONCLUSIVE
    return code


def _open(options: argparse.Namespace, wanted: list[str], stack: contextlib.ExitStack) -> Run:
    """The run directory, or the working copy of one that is elsewhere, without the results that are made anew."""
    if not remote.is_uri(options.run_dir):
        return Run.open(Path(options.run_dir))
    from checks.spark.session import spark_session

    work = options.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aftershock-")))
    run = remote.Mirror.fetch(spark_session(options.spark_master), options.run_dir, work)
    run.forget(("result.json", "junit.xml", "report.html", *(["validation.json"] if wanted != ["report"] else [])))
    return run


def _run(run: Run, wanted: list[str], spark_master: str | None, tell: pipeline.Listener) -> int:
    """Run the stages in order. After one that broke off only the report is made: it says what broke."""
    work: dict[str, Callable[[], Any]] = {
        "readback": lambda: pipeline.readback(run, master=spark_master, listener=tell),
        "audit": lambda: pipeline.audit(run, master=spark_master, listener=tell),
        "validate": lambda: pipeline.validate(run, master=spark_master, listener=tell),
        "report": lambda: pipeline.report(run, listener=tell),
    }
    broken = False
    result: Result | None = None
    for stage in wanted:
        if broken and stage != "report":
            continue
        try:
            outcome = work[stage]()
            result = outcome if stage == "report" else None
        except AftershockError as e:
            sys.stderr.write(f"{e}\n")
            broken = True
    if result is not None:
        report = f"{run.where}/{run.report.name}"
        EventLog(run, tell).emit("verdict", verdict=result.verdict, sentence=result.sentence, report=report)
        return EXIT[result.verdict]
    return INCONCLUSIVE if broken else PASS


def _serve(wanted: list[str], spark_master: str | None, tell: pipeline.Listener) -> int:
    """Judge every run directory that is named on standard input, until that ends."""
    _import_ahead()
    _warm(spark_master, tell)
    for line in sys.stdin:
        code = INCONCLUSIVE
        try:
            run = Run.open(Path(line.strip()))
            read_resolved(run)
            code = _run(run, wanted, spark_master, tell)
        except AftershockError as e:
            tell({"kind": "problem", "words": str(e)})
        tell({"kind": "judged", "run_dir": line.strip(), "code": code})
    return PASS


def _told_to_begin(spark_master: str | None, tell: pipeline.Listener) -> bool:
    """Start Spark while others still work, say `ready`, and wait for the word; False if it never comes."""
    _warm(spark_master, tell)
    return bool(sys.stdin.readline())


def _warm(spark_master: str | None, tell: pipeline.Listener) -> None:
    from checks.audit.large.scan import warm
    from checks.spark.session import spark_session

    with contextlib.suppress(AftershockError):  # the first stage meets it again, and puts it on record
        warm(spark_session(spark_master))
    tell({"kind": "ready"})


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m checks", description="Audit a run directory and give its verdict.")
    parser.add_argument(
        "run_dir", metavar="RUN_DIR", nargs="?", help="a directory, or the URI of one, such as hdfs://host/runs/x"
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="where the working copy of a URI is made and left")
    parser.add_argument("--only", nargs="+", choices=STAGES, metavar="STAGE", help=f"only these: {', '.join(STAGES)}")
    parser.add_argument("--when-told", action="store_true", help="get ready, then wait for a line on standard input")
    parser.add_argument("--spark-master", metavar="URL", help="as Spark writes it; local[*] when left out")
    return parser.parse_args(argv)


def _event_lines() -> Callable[[Event], None]:
    """Keep standard output for events: whatever else writes there (Spark's JVM, a library) goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(event: Event) -> None:
        try:
            out.write(json.dumps(event) + "\n")
            out.flush()
        except BrokenPipeError:
            pass  # nobody listens any more; events.jsonl has it, and the verdict is still wanted

    return tell


def _import_ahead() -> None:
    """Import Great Expectations (5 s) while Spark's JVM starts and works.

    What both sides import comes first: two threads that import the same packages at once could block each other.
    """
    for module in ("pandas", "pyarrow.parquet", "pyspark.sql.functions"):
        importlib.import_module(module)
    ahead = "checks.expectations.validate"
    threading.Thread(target=importlib.import_module, args=(ahead,), daemon=True, name="import-ahead").start()


if __name__ == "__main__":
    sys.exit(main())
