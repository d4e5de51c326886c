"""The DAG `incident_reproduction`: replay, repeat, compare, shrink or bisect an incident, or draft one from logs.

    choose -> reproduce   replay, repeat, ab, shrink, bisect
           -> draft       from-logs

`source` is a bundle, a run directory or a scenario; for `from-logs` a folder of broker logs. `reproduce` is deferred
while the brokers run; it waits for a slot of the pool and of AFTERSHOCK_CLUSTERS (see `provider.slots`). It succeeds
if the question was answered: the replay shows the same, all runs of the repetition are conclusive, both sides of the
comparison are conclusive, the smallest scenario or the first release was found. Its XCom has the answer, its log what
the command said, and its folder below `runs_dir` the report. `draft` writes a scenario below `runs_dir`, and returns
the path. If Airflow ends a task, all its processes end.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
# Airflow puts the DAG folder on the path, if anything: not when it only looks into a bag of DAGs
sys.path.insert(0, str(PROJECT))  # checkout only

from airflow.sdk import DAG, Param, task  # noqa: E402

from chaos.anomalies import ANOMALIES  # noqa: E402
from dags.provider.forms import OVERRIDE, folder_params, seed_param  # noqa: E402
from dags.provider.operators import AftershockIncidentOperator  # noqa: E402
from dags.provider.outcome import default_runs_dir, task_failure  # noqa: E402
from dags.provider.workers import queue_arguments  # noqa: E402

FROM_LOGS = "from-logs"
_RANGE = r"^\d+\.\d+\.\d+\.\.\d+\.\d+\.\d+$"
_CLIENT = r"^([a-z-]+:)?\d+\.\d+\.\d+(\.\.|,)\d+\.\d+\.\d+(,\d+\.\d+\.\d+)*$|^[a-z-]+$"
PARAMS = {
    "action": Param(
        "replay",
        type="string",
        enum=[*AftershockIncidentOperator.commands, FROM_LOGS],
        title="Question",
        description="What is asked.",
    ),
    "source": Param(
        "", type="string", title="Source", description="A bundle, a run directory, a scenario, or a folder of logs."
    ),
    "variant": Param(
        None,
        type=["null", "string"],
        pattern=r"^[A-Za-z0-9_-]*$",
        title="Variant",
        description="Of a scenario with variants.",
    ),
    "anomaly": Param(
        None,
        type=["null", "string"],
        pattern=r"^[a-z_. ]*$",
        examples=sorted(ANOMALIES),
        title="Anomaly",
        description="Of shrink and bisect: the kind that decides. Any change of the outcome when left out.",
    ),
    "repeat": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        maximum=10_000,
        title="Runs",
        description="Runs of the scenario (10), of each candidate of shrink (2), of each release or side (1).",
    ),
    "budget": Param(
        None,
        type=["null", "string"],
        title="Budget",
        examples=["60,60m", "20", "2h"],
        description="Begin no run after this number of runs, this time, or both. Of shrink 60,60m when left out.",
    ),
    "kafka": Param(
        None,
        type=["null", "string"],
        pattern=_RANGE,
        title="Kafka releases",
        examples=["3.9.2..4.3.1"],
        description="Of bisect: among these releases.",
    ),
    "client": Param(
        None,
        type=["null", "string"],
        pattern=_CLIENT,
        title="Client releases",
        examples=["2.5.0..2.16.0", "java:3.9.2..4.3.1"],
        description="Of bisect: or among the releases of a client library.",
    ),
    "app": Param(
        [],
        type=["null", "array"],
        items={"type": "string", "pattern": "^[^=]+=.+$"},
        title="Commands of an application",
        examples=[["billing=python v1.py", "billing=python v2.py"]],
        description="Of bisect: or among these commands or images, oldest first, one on a line: name=command.",
    ),
    "seed": seed_param(),
    "overrides": Param(
        [],
        type=["null", "array"],
        items={"type": "string", "pattern": OVERRIDE},
        title="Changes",
        description="Values by path, one on a line: path=value. Of ab: the changes that are compared.",
    ),
    "timezone": Param(
        None,
        type=["null", "string"],
        title="Time zone",
        description="Of from-logs: the zone of times without one. UTC when left out.",
    ),
    "clients": Param(
        None,
        type=["null", "string"],
        title="Settings of clients",
        description="Of from-logs: a file with settings of clients.",
    ),
    "runs_dir": folder_params(default_runs_dir(), "runs")["runs_dir"],
}


@task.branch(retries=0)
def choose(params: dict[str, Any]) -> str:
    """Return the task that answers."""
    return "draft" if params["action"] == FROM_LOGS else "reproduce"


@task(retries=0)
def draft(params: dict[str, Any]) -> str:
    """Write a draft of a scenario from logs, and return its path."""
    from chaos.incident.logs.draft import from_logs
    from chaos.run.directory import new_run_id

    # a new name each time: a user may have completed the TODOs of an earlier draft
    out = Path(params["runs_dir"]).absolute() / f"{new_run_id(FROM_LOGS)}.yaml"
    out.parent.mkdir(parents=True, exist_ok=True)
    clients = Path(params["clients"]) if params["clients"] else None
    with task_failure():
        print(from_logs(Path(params["source"]), out, params["timezone"], clients, print))  # noqa: T201 - into the log
    return str(out)


with DAG(
    "incident_reproduction",
    description="Replay, repeat, compare, shrink or bisect an incident, or draft one from logs",
    schedule=None,
    catchup=False,
    dag_display_name="Incident: replay, repeat, compare, shrink or bisect",
    doc_md=__doc__,
    default_args=queue_arguments(),
    params=PARAMS,
    tags=["incident"],
    render_template_as_native_obj=True,
) as dag:
    reproduce = AftershockIncidentOperator(
        task_id="reproduce",
        action="{{ params.action }}",
        source="{{ params.source }}",
        runs_dir="{{ params.runs_dir }}",
        options={
            "for": "{{ params.budget }}",
            "set": "{{ params.overrides }}",
            **{
                name: f"{{{{ params.{name} }}}}"
                for name in ("variant", "anomaly", "repeat", "kafka", "client", "app", "seed")
            },
        },
        deferrable=True,
    )
    choose() >> [reproduce, draft()]
