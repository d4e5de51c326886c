"""One DAG per scenario: `resilience.<scenario>`. The tasks call stages and hold no logic of their own.

    deploy -> drive -> audit -> validate -> report -> publish -> verdict
                                                 \\-> destroy      deploy's teardown: it runs whatever happened

One with variants (A/B) has such a row of tasks for each, in a group of its name, one after another:

    prepare -> variant a -> variant b -> compare -> publish -> verdict

Scenarios are the shipped ones, and those of the folder that AFTERSHOCK_SCENARIOS names, which come before shipped ones
of the same name. One with a `schedule:` runs by it, one run at a time; what it missed while nobody ran Airflow is not
made up for. One that is invalid is a DAG, too: its only task says why.

`publish` runs whatever happened before it: it adds the run to the history and tells what came of it, see
`aftershock_outcome`. How many clusters run at once is AFTERSHOCK_CLUSTERS, see `aftershock_places`.

Clients and faults belong in one task, for `airflow dags test` runs tasks one after another. `drive` is never retried: a
second try would hide what the first one saw. The verdict is a leaf and raises unless it is a pass, so that no DAG run
is green that did not prove something. XCom carries the run directory's path and nothing else.

The audit runs on the Spark master of an Airflow connection, `aftershock_spark` unless `spark_conn_id` names another,
and on local[*] where there is no such connection. Airflow's Spark provider is not needed, and must not be installed:
it brings pyspark-client, whose files lie over pyspark's own.

With `kafka_conn_id`, the cluster is one that exists, as the connection of that id (of the Kafka provider) has it. Its
secrets stay in Airflow's store: each task that connects takes them from there into its own environment, and the run
directory names no more than the variables.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
# Airflow puts the DAG folder on the path, if anything: not when it only looks into a bag of DAGs
sys.path[:0] = [str(PROJECT), str(PROJECT / "dags")]

from aftershock_connections import existing_cluster, spark_master  # noqa: E402
from aftershock_outcome import BEGAN, Notifier, asset, default_runs_dir, handed_on, told  # noqa: E402
from aftershock_places import POOL, take_place  # noqa: E402
from airflow.sdk import DAG, Metadata, Param, TaskGroup, get_parsing_context, task  # noqa: E402
from airflow.sdk.exceptions import AirflowFailException  # noqa: E402

from chaos.errors import ScenarioError  # noqa: E402
from chaos.scenario.load import load  # noqa: E402
from chaos.scenario.model import Scenario  # noqa: E402
from chaos.scenario.shipped import scenarios_in, shipped  # noqa: E402

RUNS = default_runs_dir(PROJECT)
OWNER = os.environ.get("AFTERSHOCK_OWNER")

PARAMS = {
    "kafka": Param(
        None, type=["null", "string"], pattern=r"^\d+\.\d+\.\d+$", description="Kafka release; the scenario's own"
    ),
    "driver": Param(None, type=["null", "string"], enum=[None, "process", "docker"], description="the scenario's own"),
    "bootstrap": Param(None, type=["null", "string"], description="host:port of a cluster that exists"),
    "kafka_conn_id": Param("", type="string", description="Airflow connection (Kafka) of a cluster that exists"),
    "i_own_this_cluster": Param(False, type="boolean", description="whether brokers of that cluster may be broken"),
    "seed": Param(None, type=["null", "integer"], minimum=0, description="drawn when left out"),
    "overrides": Param([], type="array", items={"type": "string"}, description="path=value, as of --set"),
    "runs_dir": Param(RUNS, type="string", description="where run directories are made"),
    "run_id": Param(None, type=["null", "string"], pattern=r"^[A-Za-z0-9._-]+$", description="made when left out"),
    "spark_conn_id": Param("aftershock_spark", type="string", description="Airflow connection of the Spark master"),
    "owner": Param(OWNER, type=["null", "string"], description="pid:start of a process whose end ends the cluster"),
}


@task(**POOL)
def deploy(scenario: str, params: dict[str, Any], dag_run: Any = None, ti: Any = None) -> str:
    """Resolve the scenario, start its cluster, and hand on the run directory."""
    from chaos.drive import stages
    from chaos.processes.process import ProcessId
    from chaos.run.events import EventLog

    given = given_by(scenario, params)
    bind = take_place(dag_run)
    run = stages.prepare(given, runs_dir=Path(params["runs_dir"]), run_id=params["run_id"])
    ti.xcom_push(BEGAN, str(run.path))
    bind(run.path)
    stages.deploy(run, EventLog(run), ProcessId.parse(params["owner"]) if params["owner"] else None)
    return str(run.path)


@task
def prepare(scenario: str, params: dict[str, Any]) -> str:
    """Resolve every variant of an A/B scenario, and hand on the directory of the whole."""
    from chaos.drive import variants

    return str(variants.prepare(given_by(scenario, params), Path(params["runs_dir"]), params["run_id"]).run.path)


@task(**POOL)
def deploy_side(whole: str, variant: str, params: dict[str, Any], dag_run: Any = None) -> str:
    """Start the cluster of one variant, and hand on its run directory."""
    from chaos.drive import stages, variants
    from chaos.processes.process import ProcessId
    from chaos.run.directory import Run
    from chaos.run.events import EventLog

    existing_cluster(params["kafka_conn_id"])
    run = Run.open(Path(whole) / variants.variant_run_id(Path(whole).name, variant))
    take_place(dag_run)(run.path)
    stages.deploy(run, EventLog(run), ProcessId.parse(params["owner"]) if params["owner"] else None)
    return str(run.path)


@task
def compare(whole: str) -> None:
    """Put the results of all variants side by side."""
    from chaos.run.directory import Run
    from checks.report.compare import write

    write(Run(Path(whole)))


@task(**POOL, retries=0)
def drive(run_dir: str, params: dict[str, Any]) -> None:
    """Run clients, faults and the observer; seal the ledger."""
    from chaos.drive import stages
    from chaos.run.directory import Run
    from chaos.run.events import EventLog

    existing_cluster(params["kafka_conn_id"])
    run = Run.open(Path(run_dir))
    stages.drive(run, EventLog(run))


@task(**POOL)
def audit(run_dir: str, params: dict[str, Any]) -> None:
    """Read the final log back from the healed cluster, then find every anomaly in Spark."""
    from chaos.run.directory import Run
    from checks import pipeline

    existing_cluster(params["kafka_conn_id"])
    run, master = Run.open(Path(run_dir)), spark_master(params["spark_conn_id"])
    pipeline.readback(run, master=master)
    pipeline.audit(run, master=master)


@task
def validate(run_dir: str) -> None:
    """Hold the findings against the contract with Great Expectations: one row, for which no cluster is needed."""
    from chaos.run.directory import Run
    from checks import pipeline

    pipeline.validate(Run.open(Path(run_dir)))


@task
def report(run_dir: str) -> None:
    """Write report.html, junit.xml and result.json."""
    from chaos.run.directory import Run
    from checks import pipeline

    pipeline.report(Run.open(Path(run_dir)))


@task(trigger_rule="all_done", retries=0)
def publish(scenario: str, first: str, params: dict[str, Any], ti: Any = None) -> Any:
    """Add the run, or every side of it, to the history, and tell its verdict to whoever waits for that."""
    from chaos.history.recording import record
    from chaos.run.directory import Run

    if run_dir := handed_on(ti, first):
        sides = [Run(path.parent) for path in sorted(Path(run_dir).glob("*/resolved.json"))]
        record(sides or [Run(Path(run_dir))], Path(params["runs_dir"]), lambda words: print(words))  # noqa: T201
    yield Metadata(asset(scenario, "verdict"), told(run_dir))


@task(retries=0)
def verdict(run_dir: str) -> None:
    """Raise unless the verdict is a pass."""
    from chaos.run.directory import Run
    from checks import pipeline

    result = pipeline.verdict(Run.open(Path(run_dir)))
    if result.verdict != "pass":
        raise AirflowFailException(f"{result.verdict}: {result.sentence} See {run_dir}/report.html")


@task(task_id="verdict", retries=0)
def verdict_of_sides(whole: str) -> None:
    """Raise unless every variant keeps its own contract."""
    from chaos.run.comparison import Comparison
    from chaos.run.directory import Run

    found = Comparison.read(Run(Path(whole)))
    if found.verdict != "pass":
        raise AirflowFailException(f"{found.verdict}: {found.sentence} See {whole}/report.html")


@task
def destroy(run_dir: str, params: dict[str, Any]) -> None:
    """End everything of the run."""
    from chaos.drive import stages
    from chaos.run.directory import Run
    from chaos.run.events import EventLog

    existing_cluster(params["kafka_conn_id"])
    run = Run(Path(run_dir))
    stages.destroy(run, EventLog(run))


@task(retries=0)
def invalid(why: str) -> None:
    """Say why there is nothing to run."""
    raise AirflowFailException(why)


def given_by(scenario: str, params: dict[str, Any]) -> Any:
    """What a DAG run's params say of a scenario."""
    from chaos.drive.stages import ScenarioRequest

    return ScenarioRequest(
        scenario,
        seed=params["seed"],
        kafka=params["kafka"],
        driver=params["driver"],
        bootstrap=params["bootstrap"],
        sets=(*params["overrides"], *existing_cluster(params["kafka_conn_id"])),
        i_own_this_cluster=params["i_own_this_cluster"],
    )


def judged(run_dir: Any) -> tuple[Any, Any]:
    """The tasks of a run that is deployed: the last one that judges, and the one that ends it."""
    end = destroy(run_dir).as_teardown(setups=run_dir, on_failure_fail_dagrun=True)
    done = report(run_dir)
    run_dir >> drive(run_dir) >> audit(run_dir) >> validate(run_dir) >> done
    return done, end


def build(name: str, given: str, scenario: Scenario) -> DAG:
    """The DAG of one scenario. given: what `deploy` finds it by, its name or its file."""
    sides = list(scenario.variants)
    first = "prepare" if sides else "deploy"
    with DAG(
        f"resilience.{name}",
        description=scenario.title,
        schedule=scenario.schedule,
        catchup=False,
        max_active_runs=1 if scenario.schedule else 16,
        params=PARAMS,
        tags=["resilience"],
        on_failure_callback=Notifier(name, first, RUNS),
    ) as dag:
        tell = publish.override(outlets=[asset(name, "verdict")])(name, first)
        passes = {"outlets": [asset(name, "pass")]}  # its event comes with its success, and that is a pass
        if not sides:
            run_dir = deploy(given)
            done, end = judged(run_dir)
            # both are leaves: a task above a teardown that may fail the run is no leaf, and its own failure would
            # not count
            told_of = verdict.override(**passes)(run_dir)
            done >> [told_of, end]
            done >> tell >> told_of
            return dag
        whole = prepare(given)
        before: Any = whole
        for side in sides:
            with TaskGroup(side):
                run_dir = deploy_side(whole, side)
                done, end = judged(run_dir)
                done >> end
            before >> run_dir
            before = done  # the next one starts beside this one's end: it takes nothing but ports that are free
        both = compare(whole)
        end = verdict_of_sides.override(**passes)(whole)
        before >> both >> [tell, end]
        tell >> end
    return dag


def build_invalid(name: str, why: str) -> DAG:
    """The DAG of a scenario that cannot be run: to be seen, and to fail."""
    with DAG(f"resilience.{name}", description=why[:200], schedule=None, tags=["resilience", "invalid"]) as dag:
        invalid(why)
    return dag


def build_all() -> dict[str, DAG]:
    """A DAG for every scenario, by name; only the one that is asked for where a task of it is about to run."""
    only = get_parsing_context().dag_id  # to read all scenarios takes seconds, and each task would take them
    folder, found = os.environ.get("AFTERSHOCK_SCENARIOS"), {}
    own = scenarios_in(Path(folder)) if folder else {}
    for name, path in {**shipped(), **own}.items():
        allowed = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        if only not in (None, f"resilience.{allowed}"):
            continue
        try:
            found[allowed] = build(allowed, str(path) if name in own else name, load(path))
        except ScenarioError as e:
            found[allowed] = build_invalid(allowed, str(e))
    return found


for scenario_name, made in build_all().items():
    globals()[f"resilience_{scenario_name}"] = made
