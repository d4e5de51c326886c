"""One DAG per scenario: `resilience.<scenario>`. Its tasks call the stages of the command line.

    deploy -> drive -> audit -> validate -> report -> publish -> verdict
                                                 \\-> destroy      deploy's teardown: it runs whatever happened

A scenario with variants (A/B) has such a group of tasks for each variant, one after another:

    prepare -> variant a -> variant b -> compare -> publish -> verdict

There is a DAG for each shipped scenario and for each scenario in the folder AFTERSHOCK_SCENARIOS, which overrides
shipped ones of the same name. A scenario with a `schedule:` follows it, one run at a time; runs that were missed while
Airflow was down are not made up for. The DAG of an invalid scenario has one task, which fails with the reason.

`publish` always runs: it adds the run to the history and updates the assets, see `provider.outcome`. It also writes
the report after a `deploy` that failed, because Airflow then starts no task before the teardown. The limit of clusters
at once is AFTERSHOCK_CLUSTERS, see `provider.slots`.

`drive` runs clients and faults, because `airflow dags test` runs tasks one after another. It is never retried: a second
try would hide the result of the first. If it failed, the run is judged as by the command line, and has a report in any
case. `verdict` is a leaf, fails unless the verdict is a pass, and does not start if `drive` failed, so that only proven
runs succeed. XCom carries only the path of the run directory.

The audit runs on the Spark master of the Airflow connection `spark_conn_id` (`aftershock_spark` by default), or on
local[*] if that connection does not exist. Do not install Airflow's Spark provider: the files of
its pyspark-client overwrite the files of pyspark.

With `kafka_conn_id`, the run uses the existing cluster of that connection (of the Kafka provider). Its secrets stay in
Airflow's store: each task that connects reads them into its environment, and the run directory has only the names of
the variables.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
# Airflow puts the DAG folder on the path, if anything: not when it only looks into a bag of DAGs
sys.path.insert(0, str(PROJECT))  # checkout only

from airflow.sdk import DAG, Metadata, TaskGroup, get_current_context, get_parsing_context, task  # noqa: E402
from airflow.sdk.exceptions import AirflowFailException  # noqa: E402

from chaos.errors import ScenarioError  # noqa: E402
from chaos.processes.process import ProcessId  # noqa: E402
from chaos.run.campaign import RESULT, Comparison  # noqa: E402
from chaos.run.directory import Run, read_model  # noqa: E402
from chaos.run.events import EventLog  # noqa: E402
from chaos.scenario.load import load  # noqa: E402
from chaos.scenario.model import Scenario  # noqa: E402
from chaos.scenario.shipped import dag_of, scenarios_in, shipped  # noqa: E402
from dags.provider.connections import existing_cluster, spark_master  # noqa: E402
from dags.provider.forms import request_of, scenario_doc, scenario_params, scenario_tags  # noqa: E402
from dags.provider.outcome import (  # noqa: E402
    BEGAN,
    Notifier,
    add_links,
    asset,
    default_runs_dir,
    handed_on,
    report_broken_off,
    runs_of,
    summary,
    task_failure,
)
from dags.provider.slots import POOL, slot_task, take_slot  # noqa: E402
from dags.provider.workers import (  # noqa: E402
    check_directory,
    check_executor,
    check_not_driven,
    check_worker,
    problem,
    queue_arguments,
    remember_worker,
)

RUNS = default_runs_dir()


@slot_task()
def deploy(scenario: str, params: dict[str, Any], dag_run: Any = None, ti: Any = None) -> str:
    """Resolve the scenario, start its cluster, and return the run directory."""
    from chaos.drive import stages

    check_executor()
    with task_failure():
        given = request_of(scenario, params)
        bind = take_slot(dag_run)
        run = stages.prepare(given, runs_dir=Path(params["runs_dir"]), run_id=params["run_id"])
    ti.xcom_push(BEGAN, str(run.path))
    bind(run.path)
    remember_worker(ti)
    stages.deploy(run, EventLog(run), ProcessId.parse(params["owner"]) if params["owner"] else None)
    return str(run.path)


@task
def prepare(scenario: str, params: dict[str, Any]) -> str:
    """Resolve every variant of an A/B scenario, and return the directory of the comparison."""
    from chaos.campaign import ab

    check_executor()
    runs_dir, run_id = Path(params["runs_dir"]), params["run_id"]
    with task_failure():
        given = request_of(scenario, params)
        into = runs_dir / run_id if run_id else None
        return str(ab.prepare(ab.VariantsRequest(runs_dir=runs_dir, into=into, given=given)))


@slot_task()
def deploy_side(whole: str, variant: str, params: dict[str, Any], dag_run: Any = None, ti: Any = None) -> str:
    """Start the cluster of one variant, and return its run directory."""
    from chaos.campaign.ab import variant_run_id
    from chaos.drive import stages

    existing_cluster(params["kafka_conn_id"])
    run = Run.open(Path(whole) / variant_run_id(Path(whole).name, variant))
    take_slot(dag_run)(run.path)
    remember_worker(ti)
    ti.xcom_push(BEGAN, str(run.path))
    stages.deploy(run, EventLog(run), ProcessId.parse(params["owner"]) if params["owner"] else None)
    return str(run.path)


@task
def compare(whole: str) -> None:
    """Put the results of all variants side by side."""
    from chaos.campaign.ab import write_comparison

    write_comparison(Path(whole))


@task(**POOL, retries=0)
def drive(run_dir: str, params: dict[str, Any], ti: Any = None) -> None:
    """Run clients, faults and the observer; seal the ledger."""
    from chaos.drive import stages

    check_worker(run_dir, ti)
    run = Run.open(Path(run_dir))
    check_not_driven(run)
    existing_cluster(params["kafka_conn_id"])
    stages.drive(run, EventLog(run))


@task(**POOL, trigger_rule="one_done")
def audit(first: str, params: dict[str, Any], ti: Any = None) -> None:
    """Read the log back, then find every anomaly with Spark, unless `drive` did not start. first: as of `report`."""
    from checks import pipeline

    run_dir = str(handed_on(ti, first))
    check_worker(run_dir, ti)
    existing_cluster(params["kafka_conn_id"])
    run, master = Run.open(Path(run_dir)), spark_master(params["spark_conn_id"])
    pipeline.readback(run, master=master)
    pipeline.audit(run, master=master)


@task
def validate(run_dir: str) -> None:
    """Check the findings against the contract with Great Expectations; needs no cluster."""
    from checks import pipeline

    check_directory(run_dir)
    pipeline.validate(Run.open(Path(run_dir)))


@task(trigger_rule="all_done")
def report(first: str, ti: Any = None) -> None:
    """Write report.html, junit.xml and result.json, whatever failed. first: the task that made the run directory."""
    from checks import pipeline

    run_dir = str(handed_on(ti, first))
    check_directory(run_dir)
    pipeline.report(Run.open(Path(run_dir)))


@task(trigger_rule="all_done", retries=0)
def publish(scenario: str, first: str, params: dict[str, Any], ti: Any = None) -> Any:
    """Add the run, or all of its variants, to the history, and update the asset of the verdict."""
    from chaos.history.recording import record

    if run_dir := handed_on(ti, first):
        report_broken_off(runs := runs_of(run_dir))
        record(runs, Path(params["runs_dir"]), lambda message: print(message))  # noqa: T201
        Notifier(scenario, first, RUNS).notify_regressions(get_current_context())
    yield Metadata(asset(scenario, "verdict"), summary(run_dir))


@task(retries=0)
def verdict(run_dir: str) -> None:
    """Fail unless the verdict is a pass."""
    from checks import pipeline

    check_directory(run_dir)
    result = pipeline.verdict(Run.open(Path(run_dir)))
    if result.verdict != "pass":
        raise AirflowFailException(f"{result.verdict}: {result.sentence} See {run_dir}/report.html")


@task(task_id="verdict", retries=0)
def verdict_of_sides(whole: str) -> None:
    """Fail unless every variant keeps its contract."""
    found = read_model(Path(whole) / RESULT, Comparison, "comparison of the variants", "run the scenario again")
    if found.verdict != "pass":
        raise AirflowFailException(f"{found.verdict}: {found.sentence} See {whole}/report.html")


@task
def destroy(run_dir: str, params: dict[str, Any], ti: Any = None) -> None:
    """End everything of the run."""
    from chaos.drive import stages

    check_worker(run_dir, ti)
    existing_cluster(params["kafka_conn_id"])
    run = Run(Path(run_dir))
    stages.destroy(run, EventLog(run))


@task(retries=0)
def invalid(reason: str) -> None:
    """Fail with the reason why the scenario is invalid."""
    raise AirflowFailException(reason)


def judged(run_dir: Any) -> tuple[Any, Any, Any]:
    """Add the tasks of a deployed run; return `drive`, the last judging task, and the task that ends the cluster."""
    end = destroy(run_dir).as_teardown(setups=run_dir, on_failure_fail_dagrun=True)
    # neither `audit` nor `report` depends on `deploy`: Airflow allows no other trigger rule below a setup
    first = run_dir.operator.task_id
    driven, done = drive(run_dir), report(first)
    run_dir >> driven >> audit(first) >> validate(run_dir) >> done
    return driven, done, end


def build(name: str, source: str, scenario: Scenario) -> DAG:
    """Return the DAG of a scenario. source: its name or file, for `deploy`."""
    dag = build_tasks(name, source, scenario)
    add_links(dag, RUNS, "prepare" if scenario.variants else "deploy")
    # after the tasks: each one would else copy them, which took most of the time of a parse
    dag.params = scenario_params(scenario, RUNS)
    return dag


def build_tasks(name: str, source: str, scenario: Scenario) -> DAG:
    """Return the DAG of a scenario with its tasks."""
    sides = list(scenario.variants)
    first = "prepare" if sides else "deploy"
    with DAG(
        f"resilience.{name}",
        description=scenario.title,
        schedule=scenario.schedule,
        catchup=False,
        max_active_runs=1 if scenario.schedule else 16,
        dag_display_name=f"{name}: {scenario.title}",
        doc_md=scenario_doc(name, scenario, problem()),
        default_args=queue_arguments(),
        tags=scenario_tags(scenario, own=source != name),
        on_failure_callback=Notifier(name, first, RUNS),
    ) as dag:
        published = publish.override(outlets=[asset(name, "verdict")])(name, first)
        passes = {"outlets": [asset(name, "pass")]}  # updated when the task succeeds, which is a pass
        if not sides:
            run_dir = deploy(source)
            driven, done, end = judged(run_dir)
            # both are leaves: the failure of a task above a teardown would not count
            passed = verdict.override(**passes)(run_dir)
            done >> [passed, end]
            driven >> passed
            done >> published >> passed
            return dag
        whole = prepare(source)
        before, drives = whole, []
        for side in sides:
            with TaskGroup(side):
                run_dir = deploy_side(whole, side)
                driven, done, end = judged(run_dir)
                done >> end
            drives.append(driven)
            before >> run_dir
            before = done  # the next variant starts while this cluster ends: it uses free ports only
        both = compare(whole)
        end = verdict_of_sides.override(**passes)(whole)
        before >> both >> [published, end]
        [published, *drives] >> end
    return dag


def build_invalid(name: str, reason: str) -> DAG:
    """Return the DAG of an invalid scenario, which fails with the reason."""
    with DAG(f"resilience.{name}", description=reason[:200], schedule=None, tags=["resilience", "invalid"]) as dag:
        invalid(reason)
    return dag


def build_all() -> dict[str, DAG]:
    """Return the DAGs of all scenarios by name, or only the one with a task that is about to run."""
    only = get_parsing_context().dag_id  # each task would else spend seconds on all scenarios
    folder, found = os.environ.get("AFTERSHOCK_SCENARIOS"), {}
    own = scenarios_in(Path(folder)) if folder else {}
    for name, path in {**shipped(), **own}.items():
        if only not in (None, dag_of(name)):
            continue
        allowed = dag_of(name).removeprefix("resilience.")
        try:
            found[allowed] = build(allowed, str(path) if name in own else name, load(path))
        except ScenarioError as e:
            found[allowed] = build_invalid(allowed, str(e))
    return found


for scenario_name, scenario_dag in build_all().items():
    globals()[f"resilience_{scenario_name}"] = scenario_dag
