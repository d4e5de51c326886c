"""The DAG `incident_reproduction`: replay, repeat, compare, shrink or bisect an incident, or read one from logs.

    reproduce

One task, for one command answers; it holds no logic of its own. `source` is a bundle, a run directory or a scenario,
for `from-logs` a folder of brokers' logs. It holds a slot of the pool for clusters from its beginning to its end. The
run is green if the question was answered: the replay showed the same, the repetition has its rates, both sides of the
comparison are known, the smallest scenario or the first release was found, the scenario was written. What was found
is in the task's log and below `runs_dir`, whose path is what goes on by XCom. If Airflow ends the task, everything
that it started ends with it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))  # Airflow puts only the DAG folder on the path, whichever Airflow it is

from aftershock_places import POOL  # noqa: E402
from airflow.sdk import DAG, Param, task  # noqa: E402
from airflow.sdk.exceptions import AirflowFailException  # noqa: E402

from chaos.incident.request import ACTIONS, arguments, shortfall  # noqa: E402

_SPAN = r"^\d+\.\d+\.\d+\.\.\d+\.\d+\.\d+$"
PARAMS = {
    "action": Param("replay", type="string", enum=list(ACTIONS), description="what is to be found out"),
    "source": Param("", type="string", description="a bundle, a run directory, a scenario, or a folder of logs"),
    "variant": Param("", type="string", pattern=r"^[A-Za-z0-9_-]*$", description="of a scenario with variants"),
    "runs": Param(10, type="integer", minimum=1, maximum=10_000, description="repeat: how many times"),
    "anomaly": Param("", type="string", pattern=r"^[a-z_. ]*$", description="shrink, bisect: such as lost_write"),
    "tries": Param(1, type="integer", minimum=1, maximum=100, description="shrink, bisect: runs of each candidate"),
    "budget": Param("60,60m", type="string", description="shrink: runs, time, or both"),
    "kafka": Param(None, type=["null", "string"], pattern=_SPAN, description="bisect: among these Kafka releases"),
    "client": Param(None, type=["null", "string"], pattern=_SPAN, description="bisect: or confluent-kafka releases"),
    "seed": Param(None, type=["null", "integer"], minimum=0, description="the incident's own when left out"),
    "overrides": Param([], type="array", items={"type": "string"}, description="path=value; ab: what is changed"),
    "timezone": Param("", type="string", description="from-logs: of times that are written without one; UTC if empty"),
    "clients": Param("", type="string", description="from-logs: a file with settings of producers and consumers"),
    "runs_dir": Param(str(PROJECT / "runs"), type="string", description="where run directories are made"),
}


@task(retries=0, **POOL)
def reproduce(params: dict[str, Any]) -> str:
    """Run the command that answers, and hand on where its runs are."""
    argv = [sys.executable, "-m", "chaos", *arguments(params)]
    Path(params["runs_dir"]).mkdir(parents=True, exist_ok=True)
    done = subprocess.run(argv, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    if why := shortfall(params["action"], done.returncode, done.stdout):
        raise AirflowFailException(why)
    return str(params["runs_dir"])


with DAG(
    "incident_reproduction",
    description="Replay, repeat, compare, shrink or bisect an incident, or read one from logs",
    schedule=None,
    catchup=False,
    params=PARAMS,
    tags=["incident"],
) as dag:
    reproduce()
