"""The DAG `incident_reproduction`: replay, repeat, compare, shrink or bisect an incident, or draft one from logs.

Its task `reproduce` calls `chaos.campaign.reproduction` in a child process. `source` is a bundle, a run directory or a
scenario; for `from-logs` a folder of broker logs. The task holds a slot of the pool for clusters. The run succeeds
if the question was answered: the replay shows the same, all runs of the repetition are conclusive, both sides of the
comparison are conclusive, the smallest scenario or the first release was found, or the draft was written. The result is
in the log of the task and below `runs_dir`; the XCom is the path of `runs_dir`. If Airflow ends the task, all its
processes end.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
# Airflow puts the DAG folder on the path, if anything: not when it only looks into a bag of DAGs
sys.path.insert(0, str(PROJECT))  # checkout only

from airflow.sdk import DAG, Param, task  # noqa: E402
from airflow.sdk.exceptions import AirflowFailException  # noqa: E402

from chaos.anomalies import ANOMALIES  # noqa: E402
from chaos.campaign.reproduction import ACTIONS, Answer, Reproduction  # noqa: E402
from dags.provider.forms import OVERRIDE, folder_params, seed_param  # noqa: E402
from dags.provider.outcome import default_runs_dir, task_failure  # noqa: E402
from dags.provider.slots import POOL  # noqa: E402
from dags.provider.workers import queue_arguments  # noqa: E402

_RANGE = r"^\d+\.\d+\.\d+\.\.\d+\.\d+\.\d+$"
_CLIENT = r"^([a-z-]+:)?\d+\.\d+\.\d+(\.\.|,)\d+\.\d+\.\d+(,\d+\.\d+\.\d+)*$|^[a-z-]+$"
PARAMS = {
    "action": Param("replay", type="string", enum=list(ACTIONS), title="Question", description="What is asked."),
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


@task(retries=0, **POOL)
def reproduce(params: dict[str, Any]) -> str:
    """Answer the question, and return the folder with the runs."""
    from chaos.lab.child_call import call

    with task_failure():
        request = Reproduction.from_params(params)
        request.check()
        answer = call("chaos.campaign.reproduction:reproduce", request, Answer)
    print(answer.detail)  # noqa: T201 - into the log of the task
    if not answer.answered:
        raise AirflowFailException(answer.sentence)
    return str(params["runs_dir"])


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
) as dag:
    reproduce()
