"""The outcome of a DAG run for others: assets with the verdict, links to reports, and notifications unless it passes.

**Assets.** Each scenario has two. `aftershock/<scenario>/verdict` gets an event at the end of every run, with the
verdict, its sentence and the run in `extra`, for a DAG that reacts to every verdict. `aftershock/<scenario>/pass` gets
one only for a pass, for a DAG with `schedule=[Asset("aftershock/leader-kill/pass")]` that must not start otherwise.
With the pass alone the first DAG would wait forever; with the verdict alone the second would start after a failure.

**Notifiers.** A DAG run that is not `success` calls `Notifier` once, as the DAG's `on_failure_callback`: a failed or an
inconclusive verdict fails the run, and so does a failed task. A run that passes calls it in `publish` if a time became
a regression with it (`new_regressions` of `chaos.history.recording`). It writes a line to `notifications.jsonl` in the
folder of the runs, and calls every notifier in the Airflow variable `aftershock_notifiers` (JSON), such as

    [{"notifier": "airflow.providers.smtp.notifications.smtp.SmtpNotifier", "to": "oncall@example.org",
      "from_email": "aftershock@example.org", "subject": "{{ headline }}", "html_content": "{{ message }}"}]

Use any subclass of Airflow's `BaseNotifier` (Slack, Apprise, PagerDuty, ...), or `provider.webhook`; its templated
arguments may use `headline`, `message`, `verdict`, `sentence`, `regressions`, `report`, `link`, `run_dir` and all
variables of Airflow. Secrets that Airflow knows are masked in all of them. If a notifier fails, the others
are still called.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from urllib.parse import quote

import attrs
from airflow.sdk import Asset, BaseNotifier, BaseOperatorLink, Variable
from airflow.sdk.exceptions import AirflowFailException

VARIABLE = "aftershock_notifiers"
BEGAN = "began"
"""The XCom key of the run directory. `deploy` pushes it at once, because it may fail before it returns."""
LOG = "notifications.jsonl"
PAGES = "AFTERSHOCK_PAGES"
"""The base of the pages, such as the URL of `python -m chaos serve` or of a static host."""
MOUNT = "/aftershock"
"""The mount path of the plugin below Airflow's base URL: the base without `PAGES`."""
NO_VERDICT = "the run broke off before its verdict; see the log of the task that failed"


def asset(scenario: str, what: str) -> Asset:
    """Return the asset of a scenario's verdicts (`verdict`) or of its passes (`pass`)."""
    # without a URI: an Asset(name) of another DAG would else be a second asset of this name, and one becomes inactive
    return Asset(f"aftershock/{scenario}/{what}")


def handed_on(ti: Any, first: str) -> str | None:
    """Return the run directory that the first task made; None if it made none."""
    # not an argument of the calling task, which would fail together with the first one
    mapped = {"map_indexes": ti.map_index} if first == ti.task_id else {}
    run_dir = ti.xcom_pull(task_ids=first, key=BEGAN, **mapped) or ti.xcom_pull(task_ids=first, **mapped)
    return str(run_dir) if run_dir else None


def runs_of(run_dir: str) -> list[Any]:
    """Return the runs of a run directory: itself, or the variants of an A/B comparison."""
    from chaos.run.directory import Run

    sides = [Run(path.parent) for path in sorted(Path(run_dir).glob("*/resolved.json"))]
    return sides or [Run(Path(run_dir))]


def report_broken_off(runs: list[Any]) -> None:
    """Write a result and a report of each run that began and has none. A failure is one line in the log of the task."""
    from chaos.errors import AftershockError
    from chaos.history.runs import unjudged_entry
    from checks import pipeline

    for run in runs:
        try:
            if not run.result.exists() and unjudged_entry(run):
                pipeline.report(run)
        except AftershockError as e:
            print(f"{run.run_id} has no report: {e}")  # noqa: T201


def summary(run_dir: str | None) -> dict[str, Any]:
    """Return verdict, sentence, run and report of a run, an A/B comparison or a campaign; else inconclusive."""
    from chaos.errors import RunDirError
    from chaos.history.runs import unjudged_entry
    from chaos.run.campaign import RESULT, Head
    from chaos.run.directory import Run, read_model
    from chaos.run.result import Judged

    values = {"verdict": "inconclusive", "sentence": NO_VERDICT, "run_id": "", "run_dir": "", "report": ""}
    if not run_dir:
        return values
    run = Run(Path(run_dir))
    values |= {"run_id": run.run_id, "run_dir": str(run.path)}
    campaign = run.path / RESULT
    try:
        if not campaign.exists() and not run.result.exists() and (broken := unjudged_entry(run)):
            return values | {"sentence": f"{broken.sentence.rstrip('.')}; see the log of the task that failed"}
        result = read_model(campaign, Head, "result", "") if campaign.exists() else Judged.read(run)
    except RunDirError:
        return values
    judged = result.model_dump(include={"verdict", "sentence", "seed", "command"})
    return values | judged | {"report": str(run.report)}


class Notifier(BaseNotifier):  # type: ignore[misc] # Airflow is not typed for mypy here
    """Reports a DAG run that is not a success. runs_dir: folder of `notifications.jsonl` without a param for it."""

    def __init__(self, scenario: str, first: str, runs_dir: str) -> None:
        super().__init__()
        self.scenario, self.first, self.runs_dir = scenario, first, runs_dir

    def notify(self, context: Any) -> None:
        """Call every notifier of the variable, then write the line."""
        self._notify(context, self._values(context, self._regressions(context)))

    def notify_regressions(self, context: Any) -> None:
        """Call every notifier, and write the line, if the run passed and something became worse with it."""
        try:
            values = self._values(context, self._regressions(context))
            if values["verdict"] == "pass" and values["regressions"]:
                self._notify(context, values)
        except Exception:
            self.log.exception("nobody was notified")  # the verdict of the run stays

    def _notify(self, context: Any, values: dict[str, str]) -> None:
        line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "scenario": self.scenario, **values}
        ours = {name: html.escape(values[name]) for name in _VARIABLES}
        errors = []
        for notifier in self._notifiers():
            try:
                arguments = dict(notifier)
                resolve_name(arguments.pop("notifier"))(**arguments)({**context, **ours})
            except Exception as e:
                name = notifier.get("notifier") if isinstance(notifier, dict) else notifier
                errors.append(masked(f"{name}: {type(e).__name__}: {e}"))
                self.log.exception("a notifier failed")
        folder = self._folder(context)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOG).open("a", encoding="utf-8") as f:
            f.write(json.dumps({**line, "failed_notifiers": errors} if errors else line) + "\n")
        self.log.warning("%s", values["headline"])

    def _values(self, context: Any, regressions: list[str]) -> dict[str, str]:
        run = summary(self._run_dir(context))
        headline = f"{run['verdict']}: {self.scenario}" + (" became worse" if regressions else "")
        parts = [f"{headline}. {run['sentence']}", *(f"Worse: {text}." for text in regressions)]
        parts += [f"Report: {run['report']}"] if run["report"] else []
        values = {
            "headline": headline,
            "message": " ".join(parts),
            "regressions": "; ".join(regressions),
            "link": report_url(run["run_dir"], self.runs_dir) if run["report"] else "",
            **{name: run[name] for name in ("verdict", "sentence", "run_dir", "report")},
            "dag_run": str(context.get("run_id", "")),
        }
        return {name: masked(value) for name, value in values.items()}

    def _folder(self, context: Any) -> Path:
        params = getattr(context.get("dag_run"), "conf", None) or {}  # a callback may get none
        return Path(params.get("runs_dir") or self.runs_dir)

    def _regressions(self, context: Any) -> list[str]:
        """Return what became worse with the run, or with its variants; nothing if the history cannot be read."""
        from chaos.history.recording import new_regressions

        run_dir = self._run_dir(context)
        try:
            return new_regressions(runs_of(run_dir), self._folder(context)) if run_dir else []
        except Exception:
            self.log.exception("the history cannot be read")
            return []

    def _run_dir(self, context: Any) -> str | None:
        """Return the run directory of the first task; None if it made none."""
        ti = context.get("ti")
        try:
            return handed_on(ti, self.first) if ti is not None else None
        except Exception:
            self.log.exception("the run directory is unknown")
            return None

    def _notifiers(self) -> list[Any]:
        try:
            value = Variable.get(VARIABLE, default="[]")
            notifiers = json.loads(value) if isinstance(value, str) else value
            return notifiers if isinstance(notifiers, list) else [notifiers]
        except Exception:
            self.log.exception("the variable %s is not a JSON list of notifiers", VARIABLE)
            return []


_VARIABLES = ("headline", "message", "verdict", "sentence", "regressions", "report", "link", "run_dir")
"""Variables for the arguments of notifiers, in addition to Airflow's (`dag_run`, `ti`, ...). Values are escaped:
names of topics may contain markup, which mails and chats render."""


def masked(value: Any) -> Any:
    """Return a value with the secrets masked that this process got from Airflow's connections and variables."""
    from airflow.sdk._shared.secrets_masker import redact

    return redact(value)


class Hidden(Mapping[str, str]):
    """Variables that Airflow shows by name only."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def __getitem__(self, name: str) -> str:
        return self._variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def __repr__(self) -> str:
        return str(self.serialize())

    def serialize(self) -> dict[str, str]:
        """Return what Airflow keeps and shows as the rendered template."""
        return dict.fromkeys(self._variables, "***")


@contextmanager
def task_failure() -> Iterator[None]:
    """Fail the task with the message of an `AftershockError`, which names params, without a retry."""
    from chaos.errors import AftershockError

    try:
        yield
    except AftershockError as e:
        raise AirflowFailException(with_params(str(e))) from None


_OTHER_NAMES = {"set": "overrides"}
_OPTIONS = re.compile(
    r"(?<![\w-])--(set|kafka|driver|bootstrap|i-own-this-cluster|seed|runs-dir|client|budget|baseline|resume|anomaly)(?![\w-])"
)


def with_params(message: str) -> str:
    """Return a message with options of the command line as params of a DAG; a message with a command is unchanged."""
    if "python -m chaos" in message:
        return message
    return _OPTIONS.sub(lambda o: f"the param {_OTHER_NAMES.get(o[1], o[1].replace('-', '_'))}", message)


def default_runs_dir() -> str:
    """Return the absolute path of the folder for run directories without a param for it.

    It is AFTERSHOCK_RUNS, else `runs` in the checkout or image, or in the home of Airflow if Aftershock is installed.
    """
    from chaos.install.locations import PREFIX, ROOT, airflow_home

    return str(Path(os.environ.get("AFTERSHOCK_RUNS") or (airflow_home() if PREFIX else ROOT) / "runs").absolute())


def report_url(run_dir: str | None, runs_dir: str, section: str = "") -> str:
    """Return the address of a run's report: `<base>/runs/<run directory below runs_dir>/report.html#<section>`.

    It is an empty text for a run outside of the folder of the runs, because the pages do not serve it.
    """
    try:
        path = Path(run_dir or "").relative_to(Path(runs_dir).absolute()).as_posix()
    except ValueError:
        return ""
    return f"{_base()}/runs/{quote(path)}/report.html" + (f"#{section}" if section else "")


def _base() -> str:
    return os.environ.get(PAGES, "").rstrip("/") or _mounted()


def _mounted() -> str:
    """Return the address of the plugin's pages."""
    from airflow.sdk.configuration import conf

    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/") + MOUNT


SECTIONS = {
    "deploy": "settings",
    "deploy_side": "settings",
    "drive": "faults",
    "audit": "anomalies",
    "validate": "expectations",
    "report": "verdict",
    "publish": "verdict",
    "verdict": "verdict",
    "destroy": "story",
}
"""The section of the report by task; other tasks link to its top. A task has its link when it has ended."""


@attrs.define
class ReportLink(BaseOperatorLink):  # type: ignore[misc] # Airflow is not typed for mypy here
    """The link of one task. first: the task that made the run directory; itself if left out.

    runs_dir: the folder that the pages serve; the one of the operator if left out.
    """

    first: str = ""
    runs_dir: str = ""
    section: str = ""

    @property
    def name(self) -> str:
        """Text of the button."""
        return "Report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address; an empty text without a run. ti_key: the running task instance, on the worker.

        For a run outside of the folder of the runs, it is the plugin's page of the task: it says where the run is, and
        what makes the pages serve it.
        """
        run_dir = handed_on(ti_key, self.first or ti_key.task_id)
        runs_dir = self.runs_dir or str(getattr(operator, "runs_dir", None) or default_runs_dir())
        of_task = f"{_mounted()}/of/{quote(ti_key.dag_id)}/{quote(ti_key.run_id)}/task/{quote(ti_key.task_id)}"
        return report_url(run_dir, runs_dir, self.section) or (of_task if run_dir else "")


def add_links(dag: Any, runs_dir: str, first: str) -> None:
    """Give each task a link to its part of the report. first: of the DAG; each group of a variant has its own."""
    for task in dag.tasks:
        group, _, name = task.task_id.rpartition(".")
        own = f"{group}.deploy_side" if group else first
        task.operator_extra_links = (ReportLink(own, runs_dir, SECTIONS.get(name, "")),)
