"""The stages of the checks. The command line and the DAGs call the same functions.

    readback -> audit -> validate -> report -> verdict

Each stage takes a `Run`, and reads and writes its run directory only. A starting stage removes the results of the
stages after it, so that no verdict outlives the tables it is based on. The stages of a process share a Spark session.
"""

from __future__ import annotations

import json
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from chaos.errors import AftershockError, ClusterError, ResolveError, RunDirError
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access, Endpoint, Security
from chaos.report.junit import junit
from chaos.report.summary import markdown
from chaos.run.directory import Run, read_json, write_atomically
from chaos.run.events import UNSEEN, WAIT, Event, EventLog, now_us, read_events
from chaos.run.result import Expectation, Result
from chaos.run.tap import tapped
from chaos.scenario.resolve import Resolved
from chaos.scenario.resolve import read as read_resolved
from chaos.setup.names import PRIMARY
from checks.spark.master import refusal
from checks.verdict.decision import collect

if TYPE_CHECKING:
    from checks.readback.stage import Ranges

Listener = Callable[[Event], None]
CONNECT_TIMEOUT_S = 3.0
LATE_US = 1_000_000
"""Commits of the first and the last second of a tap may, by the clock of their broker, be from before or after it."""
_EXPECTATIONS = TypeAdapter(list[Expectation])
TASK_MODULES = ("checks.audit.engine.scan", "checks.wire.tables")


def readback(run: Run, *, master: str | None = None, listener: Listener | None = None, spark: Any = None) -> None:
    """Read the final log from the healed cluster into the ledger, unless the ledger has it already.

    spark: the session, in a thread that did not start it; `session` knows only the session of its thread.
    """
    with _stage(run, "readback", listener):
        resolved = read_resolved(run)
        read = (run.ledger / "log_range.parquet").exists() and (run.ledger / "log").is_dir()
        if read and (not resolved.scenario.effects or (run.ledger / "effect_reads.parquet").exists()):
            return
        if run.where != str(run.path):
            raise RunDirError(f"the log of {run.where} was never read back; read it back on the machine of the cluster")
        _remove_results(run, run.validation)
        bootstrap = _bootstrap(run)
        security = _security(run, resolved)
        if resolved.scenario.tapped:
            _read_tapped(run, resolved, bootstrap, security, listener)
            return
        from checks.readback.stage import read_back, read_commit_log

        with EventLog(run, listener).stage("commit_log"):
            read_commit_log(run, resolved.audited(), bootstrap, security)
        started = spark or _session(run, master, listener)
        ranges = read_back(started, run, resolved.audited(), bootstrap, security)
        others = {name: _endpoint(run.beside(name)) for name in resolved.scenario.clusters}
        for name in {topic.cluster for topic in resolved.scenario.topics} - {PRIMARY}:
            at = others[name]
            read_back(started, run.beside(name), resolved.at(name), at.bootstrap, at.platform)
        _capture_log(run, resolved, bootstrap, security, ranges, listener)
        if resolved.scenario.effects:
            from checks.effects.read import read_effects

            with EventLog(run, listener).stage("effects"):
                read_effects(started, run, resolved, bootstrap, security, others)


def _read_tapped(run: Run, resolved: Resolved, bootstrap: str, security: Security, listener: Listener | None) -> None:
    """Read what a tap needs of the cluster: commits, and the batches of the topics since the tap began."""
    from checks.readback import stage

    events, record = EventLog(run, listener), tapped(run)
    with events.stage("commit_log"):
        within_us = None
        if record and record.sittings:
            within_us = record.sittings[0].began_us + LATE_US, (record.sittings[-1].ended_us or now_us()) - LATE_US
        stage.read_commit_log(run, resolved.audited(), bootstrap, security, within_us)
    known = (record.begins, record.finals) if record else ({}, {})
    ranges, notes = stage.read_range(run, [t.name for t in resolved.scenario.topics], bootstrap, security, *known)
    for words in notes:
        events.note(words)
    _capture_log(run, resolved, bootstrap, security, ranges, listener)


def audit(run: Run, *, master: str | None = None, listener: Listener | None = None) -> None:
    """Derive the findings and the measured times from the ledger."""
    with _stage(run, "audit", listener):
        _remove_results(run, run.validation)
        from checks import audit as auditing
        from checks.spark.session import reported

        spark, resolved = _session(run, master, listener), read_resolved(run)
        folder = _decode_wire(run, spark, resolved, listener)
        with reported(spark, "audit", listener):
            auditing.audit(spark, run, _audited(run, resolved), folder)
            if resolved.scenario.effects:
                from checks.effects.judge import judge_effects

                judge_effects(spark, run, resolved)
            if resolved.scenario.apps or resolved.scenario.effects:
                from checks.effects.lanes import write_lanes

                write_lanes(run, resolved, spark.sparkContext.master)


def _capture_log(
    run: Run, resolved: Resolved, bootstrap: str, security: Security, ranges: Ranges, listener: Listener | None
) -> None:
    """Capture the batches of the log in the ranges that were read back, if the run has a capture to compare with it."""
    kept = resolved.scenario.captured
    if kept is None:
        return
    from chaos.relay.log_capture import capture_log
    from checks.wire import tables

    asked = {TopicPartition(topic, number): offsets for (topic, number), offsets in ranges.items()}
    events, folder = EventLog(run, listener), run.path / tables.FOLDER / tables.LOG
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    missing = {str(p): why for p, why in capture_log(folder, bootstrap, Access.of(security), asked, kept).items()}
    write_atomically(folder / tables.MISSING, json.dumps(missing))
    for partition, why in missing.items():
        events.note(f"the batches of {partition} were not all captured: {why}")


def _decode_wire(run: Run, spark: Any, resolved: Resolved, listener: Listener | None) -> Path | None:
    """Decode the capture of the wire, if the run has one; return the ledger of the wire, if that is judged.

    A failure is a note if the ledgers of the clients are judged.
    """
    from checks.spark.master import is_here
    from checks.wire import ledger, tables

    judged, events = resolved.scenario.judged_on_wire, EventLog(run, listener)
    if not tables.has_capture(run):
        if judged:
            raise RunDirError(f"{run.path / tables.FOLDER} has no capture, so what passed on the wire is unknown")
        return None
    if not judged and not is_here(spark.sparkContext.master):
        events.note("the wire ledger is not decoded: Spark runs on other machines, which cannot read its segments")
        return None
    with events.stage("wire"):
        try:
            tables.write_tables(spark, run, events.note)
        except ResolveError as e:
            if judged:
                raise
            events.note(f"the tables of the wire are not decoded: {e}")
            return None
        known = {event["words"] for event in read_events(run) if event["kind"] == UNSEEN}
        for words in ledger.bypasses(run, resolved.scenario):
            if words not in known:
                events.emit(UNSEEN, words=words)
        if judged:
            ledger.write_ledger(run, resolved.scenario)
    return ledger.folder_of(run) if judged else None


def _audited(run: Run, resolved: Resolved) -> Resolved:
    """Return what the audit judges; on the wire, with what it shows of applications."""
    if not resolved.scenario.judged_on_wire:
        return resolved.audited()
    from checks.wire import ledger

    return resolved.audited(ledger.seen(run))


def validate(run: Run, *, listener: Listener | None = None) -> list[Expectation]:
    """Compare the findings with the contract of the scenario, write `validation.json`, and return the outcome."""
    with _stage(run, "validate", listener):
        _remove_results(run, run.validation)
        from checks.expectations import validate as validating

        expectations = validating.validate(run, _audited(run, read_resolved(run)))
        write_atomically(run.validation, _EXPECTATIONS.dump_json(expectations, indent=1).decode())
    return expectations


def report(run: Run, *, listener: Listener | None = None) -> Result:
    """Write the result and the report, with their other forms, from the earlier stages, complete or not."""
    with _stage(run, "report", listener):
        _remove_results(run)
        resolved = read_resolved(run)
        result = collect(run, resolved, _validated(run))
        _save(run, result)
        from chaos.report.html import write_report

        write_report(run, result, resolved)
    return result


def verdict(run: Run) -> Result:
    """Return the result that `report` wrote. Raises `RunDirError` if there is none, or it is not valid."""
    return Result.read(run, "result of the checks")


@contextmanager
def _stage(run: Run, name: str, listener: Listener | None) -> Iterator[None]:
    """Record a stage in the events. A failure is logged, raised as one line, and recorded as an inconclusive result."""
    try:
        with EventLog(run, listener).stage(name):
            try:
                yield
            except Exception as e:
                _log(run, name)
                raise _as_one_line(run, name, e) from e
    except AftershockError:
        if name != "report":
            _save_failure(run)
        raise


def _as_one_line(run: Run, stage: str, error: Exception) -> AftershockError:
    """Return the error of a stage for people: an error of ours, trouble of the Spark cluster, or a crash."""
    if isinstance(error, AftershockError):  # it may name the working copy of a remote run
        return type(error)(str(error).replace(str(run.path), run.where))
    from checks.spark import executors

    if cause := executors.trouble(run, error):
        return ClusterError(cause)
    first = (str(error).strip() or "no message").splitlines()[0][:300]
    return AftershockError(
        f"{stage} crashed ({type(error).__name__}: {first}); the traceback is in {run.logs / 'checks.log'}"
    )


def _save_failure(run: Run) -> None:
    """Write an inconclusive result that names the failed stage, from the readable part of the run."""
    _remove_results(run)
    try:
        _save(run, collect(run, read_resolved(run), []))
    except Exception:  # noqa: BLE001 - the caller has to see the failure of the stage, not this one
        _log(run, "result of the failure")


def _save(run: Run, result: Result) -> None:
    write_atomically(run.result, result.model_dump_json(indent=1))
    write_atomically(run.junit, junit(result))
    write_atomically(run.summary, markdown(result))


def _remove_results(run: Run, *more: Path) -> None:
    for path in (run.result, run.junit, run.summary, run.report, *more):
        path.unlink(missing_ok=True)


def _validated(run: Run) -> list[Expectation]:
    if not run.validation.exists():
        return []
    return _EXPECTATIONS.validate_python(read_json(run.validation, "outcome of the validation"))


def _bootstrap(run: Run) -> str:
    """Return the addresses of the cluster. Raises `RunDirError` if none accepts a connection."""
    bootstrap = run.bootstrap
    if not any(_answers(address) for address in bootstrap.split(",")):
        raise RunDirError(
            f"the log of {run.path} was never read back, and its cluster is gone ({bootstrap or 'no address'} does not "
            "answer): run the scenario again, or copy ledger/log and ledger/log_range.parquet of the same run"
        )
    return bootstrap


def _security(run: Run, resolved: Resolved) -> Security:
    """Return how the platform connects to the cluster: as deployed, or as the scenario says for an existing cluster."""
    return _endpoint(run).platform or resolved.scenario.cluster.security.given()


def _endpoint(run: Run) -> Endpoint:
    """Return how to reach a cluster as it was deployed."""
    made = read_json(run.cluster, "description of the cluster").get("secured")
    return Endpoint(run.bootstrap, platform=Security.model_validate(made["platform"]) if made else None)


def _answers(address: str) -> bool:
    host, _, port = address.strip().rpartition(":")
    return port.isdigit() and not refusal(host.strip("[]"), int(port), CONNECT_TIMEOUT_S)


def session(master: str | None) -> Any:
    """Return the Spark session of this process, started with the first call."""
    from checks.spark.session import spark_session

    return spark_session(master, task_modules=TASK_MODULES)


def keeps_classes() -> bool:
    """Return whether the end of this process takes longer, because Spark's JVM archives its classes."""
    if "checks.spark.session" not in sys.modules:
        return False
    from checks.spark import session as started

    return started.keeps_classes()


def _session(run: Run, master: str | None, listener: Listener | None) -> Any:
    """Return the session as `session`. The wait for its start is a stage of the run."""
    from checks.spark.session import is_started

    if is_started():
        return session(master)
    with EventLog(run, listener).stage(WAIT):
        return session(master)


def _log(run: Run, stage: str) -> None:
    run.logs.mkdir(exist_ok=True)
    with (run.logs / "checks.log").open("a", encoding="utf-8") as f:
        f.write(f"{stage}\n{traceback.format_exc()}\n")
