"""The stages of the driving half. The command line and the DAGs call the same functions.

    prepare -> deploy -> drive -> (checks: readback, audit, validate, report, verdict) -> destroy

`prepare` makes a `Run`. Every other stage takes that `Run` and returns it. `end_brokers` is an early part of `destroy`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.apps import supervisor as applications
from chaos.clients.runtime import prepare as prepare_client
from chaos.cluster import lending, state
from chaos.cluster.api import ChangeRelease, Cluster, able
from chaos.cluster.drivers import driver as driver_of
from chaos.cluster.reaper import end_all, end_beside
from chaos.cluster.secured import credentials
from chaos.cluster.secured.certificates import Authority
from chaos.cluster.settings import ClusterSpec, Existing
from chaos.cluster.teardown import driver_of as driver_name
from chaos.databases import database_url
from chaos.drive import beside
from chaos.drive.drive import Drive, placement_problems
from chaos.drive.rights import grant_rights, rights_of
from chaos.drive.topics import create_topics
from chaos.effects.before import warnings
from chaos.errors import AftershockError, ClusterError, MachineError, UsageError
from chaos.guarantees.facts import BROKER_NAMES, ClusterPart
from chaos.guarantees.from_cluster import DIFFER, add_cluster
from chaos.guarantees.values import Problems
from chaos.install.cache import Progress
from chaos.install.java import find_java
from chaos.kafka import admin
from chaos.kafka.admin import topic_settings
from chaos.kafka.client import Kafka, has_share_groups
from chaos.kafka.connection import BrokerConnection
from chaos.kafka.features import line_of, support
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import ClusterSecurity, Security
from chaos.kafka.settings import Config, as_text
from chaos.processes.ports import HOST
from chaos.processes.process import ProcessId
from chaos.relay import control as proxy
from chaos.relay.roles import Encryption
from chaos.run.directory import Run, new_run_id
from chaos.run.events import EventLog, now_us
from chaos.scenario.inputs import keep
from chaos.scenario.load import all_overrides, find, load
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved, check_owner, check_programs, read, resolve, save
from chaos.scenario.setting_rules import limit_problems
from chaos.scenario.shipped import SHIPPED
from chaos.setup.clients import settings_of
from chaos.setup.model import PARTITION_TARGETS, Topic
from chaos.setup.names import PRIMARY
from chaos.setup.share import Share

ANSWER_S = 10.0
AUDIT_MARGIN_S = 1800.0
"""Time for start, audit and report, which is added to the limits of the scenario for the deadline of a run."""
FRAMES_BYTES = 200
"""Bytes of a capture for each record but its payload: 60 to 150 at 1,000 records/s, with one to three readers."""
SAID_BYTES = 2**28


@dataclass(frozen=True)
class ScenarioRequest:
    """A scenario by name or file, and the options with which the user overrides it."""

    scenario: str
    seed: int | None = None
    kafka: str | None = None
    driver: str | None = None
    bootstrap: str | None = None
    sets: tuple[str, ...] = ()
    i_own_this_cluster: bool = False
    client: str | None = None

    def load(self, variant: str = "") -> Scenario:
        """Return the scenario, or one variant, with the options applied. Raises `ScenarioError`."""
        overrides = all_overrides(self.sets, self.kafka, self.driver, self.bootstrap, self.client)
        return load(find(self.scenario), overrides, variant)


def prepare(request: ScenarioRequest, *, runs_dir: Path, variant: str = "", run_id: str | None = None) -> Run:
    """Load and resolve a scenario, or one variant, and make its run directory. Starts nothing."""
    path, loaded = find(request.scenario), request.load(variant)
    if loaded.tapped:
        raise UsageError(f"{request.scenario} has no producers; give one, or judge what others send with `tap`")
    if loaded.variants:
        known = ", ".join(loaded.variants)
        raise UsageError(f"{request.scenario} has variants, and a run is of one of them: --variant {known}")
    check_owner(loaded, request.i_own_this_cluster)
    check_programs(loaded, path)
    _database_warnings(loaded)  # a database that does not answer ends the run before it begins
    run_id = run_id or new_run_id(path.stem)
    name = path.stem if path.parent == SHIPPED else str(path.absolute())
    resolved = resolve(
        loaded,
        run_id=run_id,
        name=name,
        created_us=now_us(),
        seed=request.seed,
        overrides=list(request.sets),
        variant=variant,
    )
    run = Run.create(runs_dir, run_id)
    run.scenario.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    save(run, resolved.model_copy(update={"scenario": keep(run, resolved.scenario)}))
    return run


def _database_warnings(scenario: Scenario) -> list[str]:
    """Return what the databases of effects lack before the run. Of several applications, one may be the database.

    Raises `UsageError` for a database that does not answer, and for a reference to none, also of producers of rows.
    """
    for producer in scenario.producers:
        if producer.rows and producer.rows.sql and not producer.rows.app:
            database_url(producer.rows.sql, f"producers: {producer.name}: rows.sql")
    return warnings(scenario.effects, scenario.hides_payloads, started=len(scenario.apps) > 1)


def _announce_capture(run: Run, scenario: Scenario, events: EventLog) -> None:
    """Say how much room a large capture takes. Raises `MachineError` if there is less."""
    expected, free = capture_bytes(scenario), shutil.disk_usage(run.path).free
    words = f"the capture of the wire may take {expected / 2**30:.1f} GiB"
    if expected > free:
        raise MachineError(
            f"{words}, and {free / 2**30:.1f} are free at {run.path}; make room, choose another --runs-dir, or set "
            "capture.payloads to none"
        )
    if expected >= SAID_BYTES:
        events.note(f"{words} (capture.payloads: {scenario.captured})")


def capture_bytes(scenario: Scenario) -> int:
    """Return about how many bytes the capture of a run takes at most; 0 without one."""
    if scenario.captured is None:
        return 0
    total = 0
    for p in scenario.producers:
        client = scenario.client_of(p)
        default = client.traits.defaults(client.release).get("enable.idempotence", False)
        identified = as_text(settings_of(p).get("enable.idempotence", default)) == "true" or bool(p.transactions)
        kept = scenario.captured == "all" or (scenario.captured == "needed" and not identified)
        size = p.value.sizes.largest if p.value and p.value.sizes else p.value_size
        each = FRAMES_BYTES + (size if kept else 0)
        total += p.count * p.most_records(scenario.limits.drive) * each
    return total


def deadline_s(resolved: Resolved) -> float:
    """Return the seconds after which the reaper ends every process of a run, even without its owner."""
    limits = resolved.scenario.limits
    return limits.drive + limits.drain + 2 * limits.clients + AUDIT_MARGIN_S


def deploy(run: Run, events: EventLog, owner: ProcessId | None, lender: Run | None = None) -> Run:
    """Start brokers, or borrow the brokers of `lender`, and create the topics. A failure leaves nothing running."""
    resolved = read(run)
    scenario = resolved.scenario
    with events.stage("deploy", "connecting to the cluster" if scenario.attached else ""):
        _announce_capture(run, scenario, events)
        for warning in _database_warnings(scenario):
            events.note(warning)
        driver = driver_of(scenario.cluster.driver)
        with events.stage("install", "installing the client libraries" if scenario.attached else ""):
            install(resolved, events.note, brokers=lender is None)
        if lender is None:
            spec, deadline = cluster_spec(resolved), deadline_s(resolved)
            cluster = driver.deploy(run, spec, owner=owner, deadline_s=deadline, on_progress=events.note)
        else:
            cluster = attach(lender)
            lending.lend(cluster, run, owner, deadline_s(resolved))
        try:
            beside.deploy(run, scenario, owner, deadline_s(resolved), events)
            _note_java(run, resolved)
            for release in scenario.later_releases:  # now, because it may take a minute
                able(cluster, ChangeRelease).prepare_release(release, events.note)
            access = cluster.state.access()
            with events.stage("topics"):
                topics = [topic for topic in scenario.at(PRIMARY).topics if not topic.later]
                kafka = Kafka(cluster.bootstrap, access=access, topics=[topic.name for topic in topics])
                create_topics(kafka, topics)
                kafka.close()
            if scenario.attached:
                scenario = ask_settings(run, resolved, cluster, events)
                if beyond := [*limit_problems(scenario, scenario.expect)]:
                    raise UsageError(f"the cluster does not take a client of the scenario: {'; '.join(beyond)}")
            grant_rights(cluster, rights_of(scenario))
            if scenario.cluster.racks:
                _check_placement(Kafka(cluster.bootstrap, access=access), scenario)
            if groups := [*scenario.groups, *scenario.app_groups]:
                # the first request creates __consumer_offsets
                Kafka(cluster.bootstrap, access=access).coordinator(groups[0])
            if scenario.shares:
                _set_up_share_groups(Kafka(cluster.bootstrap, access=access), scenario.shares)
            if scenario.proxied:
                addresses = {broker: cluster.address(broker) for broker in cluster.broker_ids}
                sessions, encryption = scenario.reads_sessions, _encryption(cluster, run, scenario)
                proxy.start_proxy(run, addresses, owner, sessions, scenario.captured, encryption)
        except BaseException:
            end_beside(run.path)
            if lender is None:
                cluster.destroy()
            else:  # ends the processes of this run; the cluster stays
                end_all(run.path)
            raise
    return run


def install(resolved: Resolved, on_progress: Progress, *, brokers: bool = True) -> None:
    """Fetch and build the client libraries and applications of a run, and the release of its brokers if wanted."""
    for client in resolved.scenario.client_libraries:
        prepare_client(client, on_progress)
    applications.prepare(resolved.scenario.apps, on_progress)
    if brokers:
        driver_of(resolved.scenario.cluster.driver).install(cluster_spec(resolved), on_progress)


def _encryption(cluster: Cluster, run: Run, scenario: Scenario) -> Encryption | None:
    """Return the TLS of the relay; None if the clients use none.

    Clients of an existing cluster have to trust an authority of the run, which `cluster.json` names from then on.
    """
    secured, attached = cluster.state.secured, cluster.state.attached
    hosts = [HOST, *(app.reach.host for app in scenario.apps if app.external)]
    if secured is not None and secured.spec.tls:
        return credentials.of_relay(cluster.run, secured, run.run_id, hosts)
    if attached is None or not attached.security.tls:
        return None
    folder, authority, own = credentials.folder(run), Authority.create("aftershock-relay-ca"), attached.security.ca
    folder.mkdir(parents=True)
    trusted = folder / "ca.pem"  # also of others, for an application that somebody else starts
    trusted.write_bytes(authority.pem + (Path(own).read_bytes() if own else b""))
    attached.trusted = str(trusted)
    cluster.state.save(run.cluster)
    return credentials.before_existing(folder, attached.security, authority, hosts)


def ask_settings(run: Run, resolved: Resolved, cluster: Cluster, events: EventLog) -> Scenario:
    """Record what decides about the contract: release and settings of the brokers of an existing cluster, and topics.

    Settings that the cluster does not answer, or in which its brokers differ, stay unknown, with a note. Then what
    depends on them is not decided. Returns the scenario with the settings.
    """
    given, access, scenario = cluster.state.platform_security or Security(), cluster.state.access(), resolved.scenario
    part, problems = ClusterPart(), Problems()
    kafka = Kafka(cluster.bootstrap, ANSWER_S, access)
    try:
        add_cluster(cluster.bootstrap, given, "", None, part, problems)
        if differing := [note for note in problems.notes if note.startswith(DIFFER)]:
            raise ClusterError(differing[0])
        topics = [t if t.later else _with_answers(kafka, t) for t in scenario.topics]
    except AftershockError as e:
        events.note(f"the settings of the brokers are not known, and what depends on them is not decided: {e}")
        return scenario
    finally:
        kafka.close()
    config: Config = {name: found.value for name, found in {**part.settings, **part.internal}.items()}
    scenario = scenario.with_settings(config, topics)
    brokers = [support(BrokerConnection(*cluster.address(b), access)) for b in cluster.broker_ids]
    lines = sorted({line for b in brokers if b and (line := line_of(b))}) or [
        as_text(config.get("inter.broker.protocol.version", "unknown"))
    ]
    versions = {**resolved.versions, "kafka": f"{', '.join(lines)} (as its brokers answer)"}
    save(run, resolved.model_copy(update={"scenario": scenario, "versions": versions}))
    return scenario


def _with_answers(kafka: Kafka, topic: Topic) -> Topic:
    """Return a topic of the run with the settings that it has in the cluster, which a policy there may decide."""
    more = ("delete.retention.ms", "segment.bytes", "segment.ms", "message.timestamp.type", "remote.storage.enable")
    found = topic_settings(kafka, topic.name, [*BROKER_NAMES, *more])
    return topic.model_copy(update={"config": {**topic.config, **{name: f.value for name, f in found.items()}}})


def _check_placement(kafka: Kafka, scenario: Scenario) -> None:
    """Raise `ClusterError` if the replicas of a partition are not spread over the racks."""
    metadata = kafka.metadata()
    kafka.close()
    found = list(placement_problems(scenario, metadata, [t.name for t in scenario.topics])) if metadata else []
    if found:
        raise ClusterError(
            f"replicas were not placed by racks: {'; '.join(found[:3])}; see the logs of the controllers"
        )


def _set_up_share_groups(kafka: Kafka, shares: Sequence[Share]) -> None:
    """Set the settings of the share groups. Raises `ClusterError` if the cluster has share groups disabled."""
    if not has_share_groups(kafka, shares[0].group):
        raise ClusterError(
            "the brokers have no share groups: they need Kafka 4.2 or later and the feature share.version=1 "
            "(kafka-features.sh upgrade --feature share.version=1)"
        )
    for share in shares:
        values = {name: as_text(value) for name, value in share.settings.items()}
        admin.set_group_settings(kafka, share.group, values)
    kafka.close()


def _note_java(run: Run, resolved: Resolved) -> None:
    """Add the Java release to the versions of the run, if the brokers use the Java of this machine."""
    if resolved.scenario.cluster.driver == "process":
        versions = {**resolved.versions, "java": find_java().build}
        save(run, resolved.model_copy(update={"versions": versions}))


def cluster_spec(resolved: Resolved) -> ClusterSpec:
    """Return the cluster that a scenario needs. Scenarios with equal specs can use one cluster after the other."""
    scenario, cluster = resolved.scenario.at(PRIMARY), resolved.scenario.cluster
    existing = None
    if cluster.bootstrap is not None:
        named = {fault.target.broker for fault in scenario.faults if fault.target.broker is not None}
        theirs = [target.selector for target in scenario.their_targets]
        existing = Existing(
            cluster.bootstrap,
            resolved.prefix,
            cluster.security.given(),
            cluster.verbs,
            max(topic.replication_factor for topic in scenario.topics),
            frozenset(named),
            frozenset(TopicPartition.parse(value) for kind, value in theirs if kind in PARTITION_TARGETS),
            frozenset(value for kind, value in theirs if kind == "coordinator_of"),
        )
    return replace(
        beside.new_spec(scenario),
        security=ClusterSecurity() if existing else cluster.security,
        existing=existing,
    )


def attach(run: Run) -> Cluster:
    """Return the cluster that was deployed for a run or lent to it."""
    saved = state.load(run)
    return driver_of(saved.driver).attach(lending.lender_or_self(run, saved))


def drive(run: Run, events: EventLog, before_load: Callable[[], None] = lambda: None) -> Run:
    """Run clients and faults against the deployed cluster, and seal the ledger.

    `before_load` is called when all clients run, just before the first record is sent.
    """
    with events.stage("drive"):
        Drive(run, read(run), attach(run), events, before_load).run()
    return run


def end_brokers(run: Run, events: EventLog) -> None:
    """End the brokers after the final log was read, so that the audit has the whole machine.

    Leave brokers that are borrowed, or belong to the user.
    """
    if clusters := read(run).scenario.clusters:
        with events.stage("destroy"):
            _tried(lambda: beside.end_brokers(run, clusters), events)
    if lending.is_borrowed(run) or driver_name(run.path) == "attached":
        return
    with events.stage("destroy"):
        _tried(lambda: attach(run).end_brokers(), events)


def _tried(end: Callable[[], None], events: EventLog) -> None:
    """End brokers; note what prevents that: the run can still be judged, and `destroy` tries again and raises."""
    try:
        end()
    except ClusterError as e:
        events.note(str(e))


def destroy(run: Run, events: EventLog) -> Run:
    """End every process of the run. Idempotent; no-op if nothing was deployed."""
    attached = driver_name(run.path) == "attached"
    with events.stage("destroy", "leaving the cluster, without the topics and groups of the run" if attached else ""):
        end_all(run.path)
    return run
