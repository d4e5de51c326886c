"""Display names, docs, tags and params of the DAGs of scenarios.

The params repeat what the scenario model refuses, as far as JSON Schema can say it, so that the trigger form and the
REST API refuse it at once. What remains, `deploy` or `prepare` refuses before it waits for a cluster: params that do
not exist (`check_params`) or contradict each other, and everything that the scenario refuses.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator
from typing import Any

from airflow.sdk import Param
from pydantic import TypeAdapter

from chaos.clients.choice import DEFAULT, RUNTIMES
from chaos.cluster.drivers import DRIVERS
from chaos.errors import UsageError
from chaos.kafka.security import ClusterSecurity
from chaos.scenario.model import Scenario
from chaos.setup.model import DEFAULT_KAFKA
from chaos.setup.names import Bootstrap, nearest
from chaos.units import Release
from dags.provider.connections import existing_cluster

_RELEASE, _BOOTSTRAP = (TypeAdapter(type_).json_schema()["pattern"] for type_ in (Release, Bootstrap))
_CONN_ID = r"^[A-Za-z0-9_.-]*$"
_DRIVERS = {name: f"{name}: brokers are {d.brokers}" for name, d in DRIVERS.items() if name != "attached"}
PARAM_NAMES = (
    "kafka", "seed", "overrides", "driver", "bootstrap", "kafka_conn_id", "i_own_this_cluster",
    "spark_conn_id", "runs_dir", "run_id", "owner",
)  # fmt: skip
"""The params of every scenario, in the order of the form."""
OVERRIDE = r"^\s*[^=\s][^=]*="
"""Pattern of `path=value`."""
RUN_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$(?!\n)"
"""Pattern of the name of a run directory: no path, not hidden, no line break (`$` of Python allows one at the end)."""
FOLDER = r"^/[^\x00]*$"
"""Pattern of an absolute path: the working directory of a worker of Airflow is nobody's choice."""
SET_BY = {
    "kafka": ("cluster.kafka",),
    "driver": ("cluster.driver",),
    "bootstrap": ("cluster.bootstrap", "cluster.driver"),
    "kafka_conn_id": ("cluster.bootstrap", "cluster.driver", "cluster.security"),
}
"""The paths in the scenario that a param sets."""


def seed_param() -> Param:
    """Return the param of the seed, which is drawn when it is left out."""
    return Param(
        None,
        type=["null", "integer"],
        minimum=0,
        maximum=2**63 - 1,
        title="Seed",
        description="Fixes every random choice. Drawn when left out; the report gives it.",
    )


def folder_params(runs_dir: str, what: str) -> dict[str, Param]:
    """Return the params of the folder and name for results. what: the directory that is made, such as `run`."""
    return {
        "runs_dir": Param(
            runs_dir,
            type="string",
            pattern=FOLDER,
            title="Folder",
            section="Results",
            description=f"Absolute path of the folder in which the directory of the {what} is made.",
        ),
        "run_id": Param(
            None,
            type=["null", "string"],
            pattern=RUN_ID,
            title="Name",
            section="Results",
            description=f"Name of the directory of the {what}. Made from name and time when left out.",
        ),
    }


def scenario_params(scenario: Scenario, runs_dir: str) -> dict[str, Param]:
    """Return the params of a scenario's DAG, with the choices that the scenario leaves."""
    cluster = scenario.cluster
    drivers = list(_possible_drivers(scenario))
    return {
        "kafka": Param(
            None,
            type=["null", "string"],
            pattern=_RELEASE,
            title="Kafka release",
            examples=sorted({cluster.kafka, DEFAULT_KAFKA, "3.9.2"}, reverse=True),
            description=f"Release of the brokers. {cluster.kafka} when left out.",
        ),
        "seed": seed_param(),
        "overrides": Param(
            [],
            type=["null", "array"],
            items={"type": "string", "pattern": OVERRIDE},
            title="Changes",
            description="Values by path, one on a line: cluster.brokers=5, "
            f"producers.{scenario.producers[0].name}.config.acks=1. All paths: python -m chaos reference fields.",
        ),
        "driver": Param(
            None,
            type=["null", "string"],
            enum=[None, *drivers],
            values_display={name: _DRIVERS[name] for name in drivers},
            title="Driver",
            section="Cluster",
            description=f"Where the brokers run: {cluster.driver} when left out."
            + ("" if len(drivers) == len(_DRIVERS) else " Other drivers cannot do the faults of this scenario."),
        ),
        "bootstrap": Param(
            None,
            type=["null", "string"],
            pattern=_BOOTSTRAP,
            title="Existing cluster: addresses",
            section="Cluster",
            description="Brokers of a cluster that exists, instead of a new one: kafka-1:9092,kafka-2:9092.",
        ),
        "kafka_conn_id": Param(
            None,  # the form does not accept an empty text
            type=["null", "string"],
            pattern=_CONN_ID,
            title="Existing cluster: connection",
            section="Cluster",
            description="Airflow connection (Kafka) of a cluster that exists, with its secrets.",
        ),
        "i_own_this_cluster": Param(
            False,
            type="boolean",
            title="Existing cluster: break its brokers",
            section="Cluster",
            description="Allow faults on the brokers of that cluster.",
        ),
        "spark_conn_id": Param(
            "aftershock_spark",
            type="string",
            pattern=_CONN_ID,
            title="Spark connection",
            section="Audit",
            description="Airflow connection of the Spark master. local[*] if the connection does not exist.",
        ),
        **folder_params(runs_dir, "run"),
        "owner": Param(
            os.environ.get("AFTERSHOCK_OWNER"),
            type=["null", "string"],
            pattern=r"^\d+:\d+(\.\d+)?$",
            title="Owner",
            section="Results",
            description="pid:start of a process with which the cluster ends. Set by `ui` and `dag`.",
        ),
    }


def _possible_drivers(scenario: Scenario) -> Iterator[str]:
    needs = {need for fault in scenario.faults for need in fault.needed}
    own = scenario.cluster.driver
    return (name for name in _DRIVERS if name == own or needs <= DRIVERS[name].capabilities)


def check_params(params: Iterable[str]) -> None:
    """Raise `UsageError` for a param that does not exist: Airflow accepts it, and it would have no effect."""
    for name in params:
        if name not in PARAM_NAMES:
            raise UsageError(
                f"there is no param {name!r}{nearest(name, PARAM_NAMES)} (params: {', '.join(PARAM_NAMES)})"
            )


def check_contradictions(params: dict[str, Any]) -> None:
    """Raise `UsageError` if a value is given twice: one would win silently, perhaps with another cluster."""
    if params["kafka_conn_id"] and params["bootstrap"]:
        raise UsageError(
            "kafka_conn_id and bootstrap both give an existing cluster; leave one out: the secrets of the connection "
            "are for its own addresses"
        )
    paths_given = [change.partition("=")[0].strip() for change in params["overrides"] or ()]
    for path in paths_given:
        if paths_given.count(path) > 1:
            raise UsageError(f"two changes set {path}; leave one out")
        for name, paths in SET_BY.items():
            if params[name] and any(path == one or path.startswith(f"{one}.") for one in paths):
                raise UsageError(f"the param {name} and the change of {path} set the same value; leave one out")


def request_of(scenario: str, params: dict[str, Any]) -> Any:
    """Return the request for a scenario with the params of a DAG run. Raises `UsageError`, `ScenarioError`."""
    from chaos.drive.stages import ScenarioRequest
    from chaos.scenario.resolve import check_owner

    check_params(params)
    check_contradictions(params)
    request = ScenarioRequest(
        scenario,
        seed=params["seed"],
        kafka=params["kafka"],
        driver=params["driver"],
        bootstrap=params["bootstrap"],
        sets=(*(params["overrides"] or ()), *existing_cluster(params["kafka_conn_id"])),
        i_own_this_cluster=params["i_own_this_cluster"],
    )
    check_owner(request.load(), request.i_own_this_cluster)  # before it waits for a slot
    return request


def scenario_tags(scenario: Scenario, own: bool) -> list[str]:
    """Return the tags of a scenario's DAG: the kinds of its faults, and what it uses. own: it is not a shipped one."""
    libraries = {client.traits.library for client in scenario.client_libraries} - {RUNTIMES[DEFAULT].library}
    uses = {
        "transactions": scenario.transactional,
        "share group": bool(scenario.shares),
        "A/B": bool(scenario.variants),
        "existing cluster": scenario.attached,
        "secured": scenario.cluster.security != ClusterSecurity(),
        "scheduled": scenario.schedule is not None,
        "own scenario": own,
        "no fault": not scenario.faults,
    }
    kinds = {fault.kind for fault in scenario.faults}
    return ["resilience", *sorted(kinds), *sorted(libraries), *(use for use, holds in uses.items() if holds)]


def scenario_doc(name: str, scenario: Scenario, problem: str = "") -> str:
    """Return the documentation of a scenario's DAG in Markdown. problem: why this Airflow refuses its runs."""
    parts = [f"**{_sentence(scenario.title)}** {_sentence(scenario.description)}"]
    facts = [f"- Fault `{fault.name}`: `{fault.kind}`" for fault in scenario.faults] or ["- No fault"]
    facts += [f"- Variants, one run each: {', '.join(scenario.variants)}"] if scenario.variants else []
    facts += [f"- Documented: {_sentence(scenario.documented)}"] if scenario.documented else []
    facts += [f"- Kafka {scenario.cluster.kafka}, driver {scenario.cluster.driver}, unless the params say otherwise"]
    facts += [f"- The same without Airflow: `python -m chaos run {name}`"]
    facts += [f"- **Runs are refused here.** {problem}"] if problem else []
    # with a line break at its end: Airflow would read a text that ends with `.md` as the name of a file
    return "\n".join([*parts, "", *facts, ""])


def _sentence(text: str) -> str:
    """Return a text as one paragraph that ends with a stop, with its markup escaped."""
    text = " ".join(html.escape(text, quote=False).split())
    return text if not text or text.endswith((".", "!", "?", ")")) else f"{text}."
