"""The stages of the driving half, each callable on its own: the command line and the DAGs call the same ones.

prepare -> deploy -> drive -> (checks: readback, audit, validate, report, verdict) -> destroy
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.access import Access
from chaos.cluster import Cluster, state
from chaos.cluster import driver as driver_of
from chaos.cluster.leftovers import end_all
from chaos.cluster.processes import Identity
from chaos.cluster.settings import ClusterSpec, Existing
from chaos.drive import Drive
from chaos.errors import ClusterError
from chaos.events import EventLog, now_us
from chaos.kafka import Kafka
from chaos.rundir import RunDir, new_run_id
from chaos.scenario import Resolved, Topic, find, load, read, resolve, save
from chaos.scenario.load import SHIPPED, all_overrides
from chaos.scenario.resolve import check_owner
from chaos.wait import wait_until

TOPICS_TIMEOUT_S = 30.0
AUDIT_MARGIN_S = 1800.0
"""What a run may take beyond its own limits (start, audit, report) before its deadline ends it."""


def prepare(
    scenario: str,
    *,
    runs_dir: Path,
    seed: int | None = None,
    kafka: str | None = None,
    driver: str | None = None,
    bootstrap: str | None = None,
    overrides: list[str] | None = None,
    i_own_this_cluster: bool = False,
    run_id: str | None = None,
) -> RunDir:
    """Load and resolve a scenario and make its run directory; nothing is started."""
    path = find(scenario)
    loaded = load(path, all_overrides(overrides, kafka, driver, bootstrap))
    check_owner(loaded, i_own_this_cluster)
    run = RunDir.create(runs_dir, run_id or new_run_id(path.stem))
    run.scenario.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    name = path.stem if path.parent == SHIPPED else str(path)
    save(
        run,
        resolve(loaded, run_id=run.run_id, name=name, created_us=now_us(), seed=seed, overrides=overrides or []),
    )
    return run


def deadline_s(resolved: Resolved) -> float:
    """When everything of a run is ended, whatever became of its owner."""
    limits = resolved.scenario.limits
    return limits.drive + limits.drain + 2 * limits.clients + AUDIT_MARGIN_S


def deploy(run: RunDir, events: EventLog, owner: Identity | None) -> Cluster:
    """Start the brokers and make the topics. A failure leaves nothing running."""
    resolved = read(run)
    scenario = resolved.scenario
    with events.stage("deploy"):
        cluster = driver_of(scenario.cluster.driver).deploy(
            run,
            ClusterSpec(
                brokers=scenario.cluster.brokers,
                kafka=scenario.cluster.kafka,
                metadata=scenario.cluster.metadata,
                config=scenario.cluster.config,
                heap_bytes=scenario.cluster.heap,
                cpus=scenario.cluster.cpus,
                memory_bytes=scenario.cluster.memory,
                disk_bytes=scenario.cluster.disk,
                existing=_existing(resolved),
            ),
            owner=owner,
            deadline_s=deadline_s(resolved),
            on_progress=lambda words: events.emit("note", words=words),
        )
        try:
            access = cluster.state.access()
            _create_topics(cluster.bootstrap, [t for t in scenario.topics if not t.later], access)
            if groups := [c.group for c in scenario.consumers if c.group]:
                # the first question makes __consumer_offsets
                Kafka(cluster.bootstrap, access=access).coordinator(groups[0])
        except BaseException:
            cluster.destroy()
            raise
    return cluster


def _existing(resolved: Resolved) -> Existing | None:
    """The cluster that is there already, if the scenario is for one."""
    scenario, cluster = resolved.scenario, resolved.scenario.cluster
    if cluster.bootstrap is None:
        return None
    named = {fault.target.broker for fault in scenario.faults if fault.target.broker is not None}
    replicas = max(topic.replication_factor for topic in scenario.topics)
    return Existing(cluster.bootstrap, resolved.prefix, cluster.security, cluster.verbs, replicas, frozenset(named))


def attach(run: RunDir) -> Cluster:
    """The cluster that was deployed for a run."""
    return driver_of(state.load(run).driver).attach(run)


def drive(run: RunDir, events: EventLog, before_load: Callable[[], None] = lambda: None) -> None:
    """Run clients and faults against the deployed cluster, and seal the ledger.

    `before_load` is called when all clients are up, just before the first record is sent.
    """
    with events.stage("drive"):
        Drive(run, read(run), attach(run), events, before_load).run()


def end_brokers(run: RunDir, events: EventLog) -> None:
    """The final log has been read: end the brokers, so that the audit has the machine to itself; the rest goes on."""
    with events.stage("destroy"):
        try:
            attach(run).end_brokers()
        except ClusterError as e:  # what was recorded is judged all the same; `destroy` tries again, and says so
            events.emit("problem", words=str(e))


def destroy(run: RunDir, events: EventLog) -> None:
    """End everything of the run; idempotent, and quiet where nothing was deployed."""
    with events.stage("destroy"):
        end_all(run.path)


def _create_topics(bootstrap: str, topics: Sequence[Topic], access: Access | None) -> None:
    """Make the topics, and wait until every partition has a leader and a full ISR."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **(access.librdkafka() if access else {})})
    wanted = [
        NewTopic(t.name, t.partitions, t.replication_factor, config={k: _text(v) for k, v in t.config.items()})
        for t in topics
    ]
    for name, future in admin.create_topics(wanted, operation_timeout=TOPICS_TIMEOUT_S).items():
        try:
            future.result(TOPICS_TIMEOUT_S)
        except KafkaException as e:
            raise ClusterError(f"topic {name} could not be made: {e.args[0].str()}") from None
    kafka = Kafka(bootstrap, access=access, topics=[t.name for t in topics])
    partitions = [f"{t.name}/{p}" for t in topics for p in range(t.partitions)]
    wait_until(
        lambda: not kafka.unhealthy(partitions),
        TOPICS_TIMEOUT_S,
        lambda: f"the topics are not ready: {'; '.join(kafka.unhealthy(partitions))}",
    )
    kafka.close()


def _text(value: bool | int | float | str) -> str:
    """A setting as Kafka reads it."""
    return value if isinstance(value, str) else json.dumps(value)
