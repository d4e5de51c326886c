"""Operators for DAGs of others: run a scenario, test an application, gate, prove, audit, or answer an incident.

    from aftershock.dags.provider.operators import AftershockTestOperator

    held = AftershockTestOperator(
        task_id="break_it",
        command="python service.py",
        options={"samples": "orders.jsonl", "reads": "orders", "writes": "invoices", "kafka": "{{ params.kafka }}"},
        directory="/srv/billing",
    )
    build >> held >> deploy

Each operator runs one command of `aftershock`, and `options` are the options of this command (`aftershock run --help`),
without the dashes: True sets a flag, a list repeats the option, a mapping repeats it as NAME=VALUE. An unknown option
is an import error of the DAG; a wrong value fails the task before anything starts, with the line of the command line.

The task succeeds only with a pass, or with `fail_unless_pass=False` with any verdict. Its XCom has `verdict`,
`sentence`, `run_id`, `run_dir`, `report` (a path), `link` (its address on the pages), `seed`, `command`, which runs it
again, and `regressions`: what became worse with this run. It updates the assets `aftershock/<name>/verdict` and, with a
pass, `aftershock/<name>/pass`; the name is the scenario, the gate or the application. A verdict is never tried again.
Waiting for a slot (`slots`) holds no worker, and with `deferrable=True` neither does the run: the command goes on as a
process on the worker's machine, and the triggerer waits for its end. Workers on several machines: see `workers`.

A run ends with its task: after a time-out, if somebody clears or marks the task, and if its process is killed. Airflow
starts a task again if `retries` say so, or if its scheduler was killed: this try takes the verdict of a run that has
ended meanwhile, and ends any other one before it begins a new one (`job.taken_over`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.provider.connections import existing_cluster, spark_master
from dags.provider.job import LOOK_S, Job, JobTrigger, Leash, taken_over
from dags.provider.outcome import (
    BEGAN,
    SECTIONS,
    Hidden,
    ReportLink,
    asset,
    default_runs_dir,
    masked,
    report_url,
    runs_of,
    summary,
    task_failure,
)
from dags.provider.slots import POOL, slots_with
from dags.provider.workers import VARIABLE, queue_arguments

OURS = frozenset({"into", "runs-dir", "json", "plan", "judge", "cell", "timings"})
"""Options that an operator sets, or that give no verdict."""
Options = Mapping[str, Any]


class AftershockOperator(BaseOperator):  # type: ignore[misc] # Airflow is not typed for mypy here
    """Runs one command of Aftershock, and takes its verdict. Use a subclass.

    options: of the command. runs_dir: the folder of the runs; AFTERSHOCK_RUNS if left out. run_id: the name of the run
    directory, with -2 behind it if the task runs again; made from name and time if left out. directory: the working
    directory of the command, for relative paths. env: variables for it, such as the secrets that a scenario names.
    """

    commands: ClassVar[tuple[str, ...]]
    """The command; several, if an argument chooses one."""
    filled: ClassVar[tuple[str, ...]]
    """The fields that are None or not empty: a template may make an empty text of a missing value."""
    starts_clusters: ClassVar[bool] = True
    ui_color = "#f5d7c3"
    template_fields: Sequence[str] = ("options", "runs_dir", "run_id", "directory", "env")
    template_fields_renderers: ClassVar[dict[str, str]] = {"options": "json", "env": "json"}
    operator_extra_links = (ReportLink(section=SECTIONS["verdict"]),)

    def __init__(
        self,
        *,
        options: Options | None = None,
        runs_dir: str | None = None,
        run_id: str | None = None,
        directory: str | None = None,
        env: Mapping[str, str] | None = None,
        fail_unless_pass: bool = True,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        # only what the installation sets: an argument given here would hide the one in a DAG's default_args
        pool = POOL if self.starts_clusters and os.environ.get("AFTERSHOCK_POOL") else {}
        super().__init__(**{**queue_arguments(), **pool, "retries": 0, **kwargs})
        self.options = check_options(options or {}, *self.commands)
        self.runs_dir, self.run_id, self.directory = runs_dir, run_id, directory
        self.env: Mapping[str, str] = dict(env or {})
        self.fail_unless_pass, self.deferrable = fail_unless_pass, deferrable
        self._job: Job | None = None
        self._leash: Leash | None = None
        self._folder: str | None = None

    def verb(self) -> str:
        """Return the command."""
        return self.commands[0]

    def subject(self) -> str:
        """Return what is judged: a name or a path."""
        raise NotImplementedError

    def arguments(self) -> list[str]:
        """Return what the command gets besides the options."""
        return ["--", self.subject()]

    def add_assets(self) -> None:
        """Name the assets of the verdict; none if the subject is a template, which is known too late."""
        if "{{" not in self.subject():
            kinds = ["verdict", *(["pass"] if self.fail_unless_pass else [])]
            self.outlets: list[Any] = [*self.outlets, *(asset(self.label(), kind) for kind in kinds)]

    def label(self) -> str:
        """Return the name of the subject: in the assets, and at the begin of the run directory's name."""
        return Path(self.subject()).stem or self.task_id

    def folder(self, attempt: int) -> Path:
        """Return the new run directory. attempt: of the task; a later one does not find its name taken."""
        from chaos.run.directory import new_run_id

        if resumed := self.options.get("resume"):
            return Path(str(resumed)).absolute()
        again = f"-{attempt}" if attempt > 1 else ""
        name = f"{self.run_id}{again}" if self.run_id else new_run_id(self.label())
        return Path(self.runs_dir or default_runs_dir()).absolute() / name

    def placed(self, folder: Path) -> list[str]:
        """Return the options that place the results."""
        return [] if self.options.get("resume") else ["--into", str(folder)]

    def given(self, options: Options) -> Options:
        """Return options with what the other fields add, such as the cluster of a connection."""
        return options

    def execute(self, context: Any) -> Any:
        """Start the command, and wait for it or defer."""
        ti = context["ti"]
        for name in self.filled:
            if (value := getattr(self, name)) is not None and not str(value).strip():
                raise AirflowFailException(f"nothing was started: {name} of {self.task_id} is empty")
        said = [*_texts(self.options), *self.arguments()]
        if masked(said) != said:
            raise AirflowFailException(
                f"nothing was started: options or command of {self.task_id} have a secret that Airflow hides, and the "
                "run directory would keep it; give it in env, and write env:NAME where it is used"
            )
        if self.directory and not Path(self.directory).is_dir():
            raise AirflowFailException(f"the directory {self.directory} does not exist on {socket.gethostname()}")
        with task_failure():
            if done := taken_over(self._earlier(ti), self._asked(context), self.log.warning):
                self.log.info("an earlier try of this task ran it to the end: %s", done.results)
                ti.xcom_push(BEGAN, done.results)
                return self.finish(context, {"job": asdict(done), "read": 0})
            job, leash = self._start(context)
        self._job, self._leash = job, leash
        ti.xcom_push(BEGAN, job.results)
        if self.deferrable:
            leash.let_go()
            self._defer(job, 0)
        read = 0
        while True:
            ended = job.ended()
            read = self._copy(job, read)
            if ended:
                return self.finish(context, {"job": asdict(job), "read": read})
            time.sleep(LOOK_S)

    def _start(self, context: Any) -> tuple[Job, Leash]:
        """Take a slot, or defer, and start the command."""
        ti = context["ti"]
        name = _name(ti)
        slots = slots_with(name) if self.starts_clusters else None
        folder = self.folder(ti.try_number)
        placed = [*self.placed(folder), "--json", *self.arguments()]
        self.log.info("%s", self.line(placed))
        try:
            job, leash = Job.start(
                self._tasks() / f"{_key(ti)}-{ti.try_number}",
                folder,
                [self.verb(), *words(self.given(self.options)), *placed],
                asked=self._asked(context),
                directory=self.directory,
                env={**self.env, **self._secrets()},
            )
        except OSError as e:
            raise AirflowFailException(f"nothing was started on {socket.gethostname()}: {e}") from None
        if slots:
            from chaos.processes.process import ProcessId

            slots.hand_on(name, ProcessId.parse(job.process))
        return job, leash

    def _secrets(self) -> dict[str, str]:
        """Return the variable that names the secrets in `env`: what Airflow masks, and URLs with a password."""
        from chaos.apps.values import SECRETS
        from chaos.databases import secrets_in

        shown = masked(dict(self.env))
        return {SECRETS: " ".join(n for n, value in self.env.items() if shown[n] != value or secrets_in(value))}

    def line(self, placed: Sequence[str]) -> str:
        """Return the command line for the log, without secrets that Airflow knows. placed: its end."""
        # masked before they are encoded or quoted: Airflow does not find a secret that looks different
        return shlex.join(masked(["aftershock", self.verb(), *words(self.given(masked(self.options))), *placed]))

    def render_template_fields(self, context: Any, jinja_env: Any = None) -> None:
        """Render, and hide the values of `env`: Airflow knows few of the secrets among them."""
        super().render_template_fields(context, jinja_env)
        self.env = Hidden(self.env)

    def resume(self, context: Any, event: Any = None) -> Any:
        """Start after a wait for a slot. Airflow calls it with the event of the trigger."""
        return self.execute(context)

    def finish(self, context: Any, event: Any) -> dict[str, Any]:
        """Return the verdict of an ended command; fail the task unless it is a pass."""
        done, read = Job(**event["job"]), event["read"]
        folder = self._folder = done.results
        if not done.is_here:
            raise AirflowFailException(
                f"the command runs on {done.host}, and this task resumed on another machine; set {VARIABLE} to a queue "
                f"that the workers of one machine consume. The run goes on in {folder}"
            )
        if not done.ended():
            self._defer(done, read)
        self._copy(done, read)
        try:
            found = self._found(done)
        finally:
            shutil.rmtree(done.folder, ignore_errors=True)  # what it says is in the log of the task
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra.update(found)
        self.log.info("%s: %s", found["verdict"], found["sentence"])
        if self.fail_unless_pass and not self.holds(found):
            context["ti"].xcom_push("return_value", found)
            raise AirflowFailException(f"{found['verdict']}: {found['sentence']} See {found['report'] or folder}")
        return found

    def holds(self, found: Mapping[str, Any]) -> bool:
        """Return whether the task succeeds with this verdict."""
        return bool(found["verdict"] == "pass")

    def on_kill(self) -> None:
        """End the command with everything that it started."""
        if self._job:
            self._end(self._job)

    def resume_execution(self, next_method: str, next_kwargs: Any, context: Any) -> Any:
        """Go on after a trigger; if it ran into a time-out or broke, end the command."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowException:
            if next_method == "__fail__":
                for folder in self._earlier(context["ti"]):
                    if job := Job.read(folder):
                        self._end(job)
            raise

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what the provider of OpenLineage sends at the end of the task."""
        from dags.provider.lineage import lineage

        return lineage(self._folder)

    get_openlineage_facets_on_failure = get_openlineage_facets_on_complete

    def _tasks(self) -> Path:
        return Path(self.runs_dir or default_runs_dir()).absolute() / ".tasks"

    def _earlier(self, ti: Any) -> list[Path]:
        """Return the folders of the commands that earlier tries of this task started, or this one."""
        return sorted(self._tasks().glob(f"{_key(ti)}-*"))

    def _asked(self, context: Any) -> str:
        """Return a digest of the question. A task that somebody clears asks it again, and so does a new DAG run."""
        ti, run = context["ti"], context["dag_run"]
        asked = [run.start_date, ti.max_tries, self.directory, self.verb(), words(self.options), self.arguments()]
        return sha256(repr(asked).encode()).hexdigest()

    def _end(self, job: Job) -> None:
        """End a command, and say it in a line."""
        if not job.is_here:
            return
        self.log.warning("the run in %s ends with this task", job.results)
        with task_failure():
            job.discard()

    def _defer(self, job: Job, read: int) -> None:
        self.defer(trigger=JobTrigger(asdict(job), read), method_name="finish", timeout=self.execution_timeout)

    def _copy(self, job: Job, read: int) -> int:
        """Copy the output from a position into the log of the task; return the position behind it."""
        lines, read = job.lines(read)
        for line in lines:
            self.log.info("%s", line)
        return read

    def _found(self, job: Job) -> dict[str, Any]:
        """Return the verdict of a command. Raises `AirflowFailException` with its last line if it gave none."""
        if not Path(job.folder).is_dir():
            raise AirflowFailException(f"the run in {job.results} was ended with this task, or by another try of it")
        if not job.judged():
            code, last = job.code(), _last(job.lines()[0])
            ended = "was killed" if code is None else f"ended with exit code {code}"
            raise AirflowFailException(f"{self.verb()} gave no verdict, it {ended}: {last}")
        from chaos.history.recording import new_regressions

        found, runs_dir = summary(job.results), str(self.runs_dir or default_runs_dir())
        link = report_url(found["run_dir"], runs_dir, SECTIONS["verdict"])
        return {**found, "link": link, "regressions": new_regressions(runs_of(job.results), Path(runs_dir))}


class AftershockRunOperator(AftershockOperator):
    """Runs a scenario, by name or file; one with variants as an A/B comparison.

    kafka_conn_id: the existing cluster, as a connection of the type `aftershock` or `kafka`. Faults on it need
    `options={"i-own-this-cluster": True}`; Airflow's `ApprovalOperator` before this one asks its owner.
    """

    commands = ("run",)
    filled = ("scenario", "kafka_conn_id", "spark_conn_id")
    template_fields = ("scenario", "kafka_conn_id", *AftershockOperator.template_fields)

    def __init__(
        self, *, scenario: str, kafka_conn_id: str | None = None, spark_conn_id: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.scenario, self.kafka_conn_id, self.spark_conn_id = scenario, kafka_conn_id, spark_conn_id
        self.add_assets()

    def subject(self) -> str:
        """Return the scenario."""
        return self.scenario

    def given(self, options: Options) -> Options:
        """Return the options, with the cluster of the Kafka connection and the master of the Spark connection."""
        sets = [*_values("set", options.get("set")), *existing_cluster(self.kafka_conn_id)]
        return {**options, "set": sets, **_spark(self.spark_conn_id)}


class AftershockTestOperator(AftershockOperator):
    """Tests an application, unmodified: under faults, with inputs like the samples (option `samples`).

    command: of the application, as a shell's words or a list; it runs in `directory`. application: its name. The
    application has the variables of `env`, too; the option `env` is kept in the file of the scenario.
    """

    commands = ("test",)
    filled = ("command",)
    template_fields = ("command", "application", *AftershockOperator.template_fields)

    def __init__(self, *, command: str | Sequence[str], application: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command, self.application = command, application
        if not self.options.get("samples"):
            raise ValueError("an application needs inputs like its own: options={'samples': 'orders.jsonl', …}")
        self.add_assets()

    def subject(self) -> str:
        """Return the name of the application: the name of its program if none is given."""
        return self.application or self.arguments()[1]

    def arguments(self) -> list[str]:
        """Return the command of the application."""
        return ["--", *(shlex.split(self.command) if isinstance(self.command, str) else self.command)]

    def given(self, options: Options) -> Options:
        """Return the options, with the name of the application."""
        return {**options, **({"name": self.application} if self.application else {})}


class AftershockGateOperator(AftershockOperator):
    """Runs a gate, by name or file: a matrix of scenarios, releases and settings, with one answer.

    cell: the number of the only cell to run, in the planned folder that the option `resume` names; the verdict is about
    the records of this cell. cell_name: for `map_index_template`; the DAG `release_gate` has a task for each cell.
    """

    commands = ("gate",)
    filled = ("gate",)
    template_fields = ("gate", *AftershockOperator.template_fields)

    def __init__(self, *, gate: str | None = None, cell: int | None = None, cell_name: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gate, self.cell, self.cell_name = gate, cell, cell_name
        if cell is None:
            self.add_assets()

    def subject(self) -> str:
        """Return the gate; empty if a planned folder knows it."""
        return self.gate or ""

    def arguments(self) -> list[str]:
        """Return the gate; a planned folder knows it."""
        return ["--", self.gate] if self.gate else []

    def given(self, options: Options) -> Options:
        """Return the options, with the cell."""
        return {**options, "cell": self.cell}

    def _found(self, job: Job) -> dict[str, Any]:
        """Return the verdict of the gate, or of the cell: the gate has none before its last cell."""
        from chaos.run.campaign import Head

        found = super()._found(job)
        if self.cell is None:
            return found
        cell = Head.model_validate_json(job.printed())
        own = cell.model_dump(include={"verdict", "seed", "command"})
        return {**found, **own, "sentence": f"cell {self.cell}: {cell.sentence}"}


class AftershockProveOperator(AftershockOperator):
    """Tries whether the promises of an application's settings hold. app: its app.yaml; None continues `resume`."""

    commands = ("prove",)
    filled = ("app",)
    template_fields = ("app", *AftershockOperator.template_fields)

    def __init__(self, *, app: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.add_assets()

    def subject(self) -> str:
        """Return the file of the application."""
        return self.app or "proof"

    def arguments(self) -> list[str]:
        """Return the file of the application, if there is one."""
        return ["--", self.app] if self.app else []


class AftershockIncidentOperator(AftershockOperator):
    """Answers a question about an incident, by a bundle, a run directory or a scenario.

    action: `replay`, `repeat`, `ab`, `shrink` or `bisect`; a template may give it. The task succeeds if the question
    was answered: the replay shows the same, no run of a repetition or a comparison is inconclusive, or a search found
    something. The XCom also has `answer`: the smallest scenario, or the first release.
    """

    commands = ("replay", "repeat", "ab", "shrink", "bisect")
    filled = ("source",)
    template_fields = ("action", "source", *AftershockOperator.template_fields)

    def __init__(self, *, action: str, source: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.action, self.source = action, source
        if "{{" not in action and action not in self.commands:
            raise ValueError(f"there is no action {action!r}; known are {', '.join(self.commands)}")

    def verb(self) -> str:
        """Return the action."""
        return self.action

    def subject(self) -> str:
        """Return what is asked about."""
        return self.source

    def label(self) -> str:
        """Return the question and its subject."""
        return f"{self.action}-{Path(self.source).name.partition('.')[0]}"

    def holds(self, found: Mapping[str, Any]) -> bool:
        """Return whether the question was answered."""
        return bool(found["answered"])

    def _found(self, job: Job) -> dict[str, Any]:
        """Return the verdict, with the answer."""
        from chaos.run.campaign import Comparison, PartsResult

        found = super()._found(job)
        result = (Comparison if self.action == "ab" else PartsResult).model_validate_json(job.printed())
        return {**found, "answered": result.answered, "answer": getattr(result, "answer", "")}


class AftershockAuditOperator(AftershockOperator):
    """Audits an earlier run again, from its ledger to the verdict, without Kafka."""

    commands = ("audit",)
    filled = ("run_dir", "spark_conn_id")
    starts_clusters = False
    template_fields = ("run_dir", *AftershockOperator.template_fields)

    def __init__(self, *, run_dir: str, spark_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_dir, self.spark_conn_id = run_dir, spark_conn_id

    def subject(self) -> str:
        """Return the run directory."""
        return str(self.run_dir)

    def folder(self, attempt: int) -> Path:
        """Return the run directory."""
        return Path(self.run_dir).absolute()

    def placed(self, folder: Path) -> list[str]:
        """Return nothing: the results are in the run directory."""
        return []

    def given(self, options: Options) -> Options:
        """Return the options, with the master of the Spark connection."""
        return {**options, **_spark(self.spark_conn_id)}


def _name(ti: Any) -> str:
    """Return the name of a task in a DAG run: as holder of a slot, and of all tries."""
    return f"{ti.dag_id} {ti.run_id} {ti.task_id} {ti.map_index}"


def _key(ti: Any) -> str:
    """Return the begin of the names of the folders of a task in a DAG run."""
    readable = re.sub(r"[^A-Za-z0-9_]", "_", ti.task_id)[:60]
    return f"{readable}-{sha256(_name(ti).encode()).hexdigest()[:12]}"


def _spark(conn_id: str | None) -> dict[str, str]:
    master = spark_master(conn_id) if conn_id else None
    return {"spark-master": master} if master else {}


def _last(lines: Sequence[str]) -> str:
    """Return the error at the end of an output as one line, or the last line that says something."""
    said = [line.strip() for line in lines if line.strip()]
    errors = [n for n, line in enumerate(said) if line.startswith("error:")]
    return " ".join(said[errors[-1] if errors else -1 :]) or "it said nothing"


def check_options(options: Options, *commands: str) -> dict[str, Any]:
    """Return options by their names with dashes. Raises `ValueError` for one that none of the commands has."""
    from chaos.cli import options_of
    from chaos.setup.names import nearest

    allowed = dict.fromkeys(name for command in commands for name in options_of(command) if name not in OURS)
    command = "` or `".join(commands)
    given = {name.replace("_", "-"): value for name, value in options.items()}
    for name in given:
        if name in OURS:
            raise ValueError(f"the option {name} of `{command}` is not for operators")
        if name not in allowed:
            raise ValueError(f"`{command}` has no option {name}{nearest(name, allowed)}; it has {', '.join(allowed)}")
    return given


def words(options: Options) -> list[str]:
    """Return options as the command line takes them."""
    return [word for name, value in options.items() for one in _values(name, value) for word in _word(name, one)]


def _values(name: str, value: Any) -> list[Any]:
    # without a change that a template leaves empty, the run would be another one than the one that is asked for
    return [""] if name == "set" and value == "" else _several(value)


def _word(name: str, value: Any) -> list[str]:
    return [f"--{name}"] if value is True else [f"--{name}={value}"]


def _texts(value: Any) -> list[str]:
    """Return all texts in options, before they are encoded as JSON."""
    if isinstance(value, Mapping):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list | tuple):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def _several(value: Any) -> list[Any]:
    """Return the values of an option: none for None, False and an empty text, NAME=VALUE each for a mapping."""
    if value is None or value is False or value == "":
        return []
    if isinstance(value, Mapping):
        return [f"{name}={one if isinstance(one, str) else json.dumps(one)}" for name, one in value.items()]
    return [*value] if isinstance(value, list | tuple) else [value]
