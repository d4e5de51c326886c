"""The cluster of the attached driver: its discovery, its checks, and the execution of the user's commands.

/bin/sh executes a command, with a timeout and its output in `logs/verbs.log`. A command does not get the marks of the
run: a broker that it starts belongs to the user and must outlive the run. It runs in a new process group, which is
killed after the timeout. While it runs, `cluster.json` lists it, so that any process that ends the run can end it. Its
output goes to an unnamed file first, because processes that it leaves behind may continue to write, and a closed pipe
would kill them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Self

from chaos.cluster import deployment, state
from chaos.cluster.api import Cluster
from chaos.cluster.settings import PLACEHOLDER, ClusterSpec, Existing
from chaos.cluster.state import Attachment, BrokerStatus, ClusterState, NodeState
from chaos.errors import AftershockError, ClusterError, UsageError
from chaos.install.cache import Progress, silent
from chaos.kafka import cleanup, messages
from chaos.kafka.brokers import addresses
from chaos.kafka.cleanup import list_groups
from chaos.kafka.client import Kafka
from chaos.kafka.connection import BrokerConnection, accepts_connections
from chaos.kafka.metadata import Metadata
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access, AccessRefused
from chaos.processes.process import MARKS, ProcessId, wait_gone
from chaos.processes.scrub import Scrubber
from chaos.run.directory import Run
from chaos.wait import wait_until

CHECK_EVERY_S = 0.05
MAX_OUTPUT = 64 * 1024
_MAX_LINE = 300


def fill_in(command: str, broker: int, host: str, port: int) -> str:
    """Return the command for a broker, with the values of its placeholders quoted for the shell."""
    values = {"broker": broker, "host": host, "port": port}
    return PLACEHOLDER.sub(lambda match: shlex.quote(str(values[match[1]])), command)


def run_command(
    verb: str,
    command: str,
    timeout_s: float,
    log: Path,
    secrets: Iterable[str] = (),
    *,
    meanwhile: Callable[[], object] = lambda: None,
    on_change: Callable[[ProcessId, bool], None] = lambda identity, running: None,
) -> None:
    """Run a command from `fill_in`. Raises `ClusterError` if it fails or takes too long.

    `meanwhile` is called repeatedly until the command ends. `on_change` is called with the process and whether it runs,
    after the start and after the end.
    """
    env = {key: value for key, value in os.environ.items() if key not in MARKS}
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
        identity = ProcessId.of(child.pid)
        try:
            on_change(identity, True)
            code = _wait(child, timeout_s, meanwhile)
        finally:
            if child.poll() is None:
                end_command(identity)
                child.wait()
            on_change(identity, False)
        text = _read(output, secrets)
    ended = f"exit code {code}" if code is not None else f"killed after {timeout_s:g} s"
    _note(log, f"{verb}: {ended}\n{text}")
    if code != 0:
        last = f": {text.splitlines()[-1][:_MAX_LINE]}" if text.strip() else ", and said nothing"
        how = "did not end in time and was " + ended if code is None else f"ended with {ended}"
        raise ClusterError(f"the {verb} command {how}{last}; see {log}")


def end_command(command: ProcessId) -> None:
    """Kill a command and its children; do nothing if it has ended."""
    if command.alive():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)


def _wait(child: subprocess.Popen[bytes], timeout_s: float, meanwhile: Callable[[], object]) -> int | None:
    """Return the exit code; None after the timeout."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(CHECK_EVERY_S)
        meanwhile()
    return None


def _read(output: IO[bytes], secrets: Iterable[str]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - MAX_OUTPUT))
    text = output.read(MAX_OUTPUT).decode("utf-8", errors="replace")
    return Scrubber(secrets).text(text)


def _note(log: Path, text: str) -> None:
    with log.open("a", encoding="utf-8") as f:
        f.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text.rstrip()}\n")


ANSWER_S = 15.0
"""The timeout for an answer of the cluster."""
SHOWN = 3
"""Number of names in a message."""


def discover(existing: Existing, access: Access | None) -> Metadata:
    """Return the brokers and topics of a cluster, after the check that it meets the requirements of the run."""
    metadata = _ask(existing.bootstrap, access)
    _check(existing, metadata)
    _connect_to_all(metadata, access)
    for partition in sorted(existing.partitions):
        check_partition(partition, metadata)
    if existing.groups:
        with closing(Kafka(existing.bootstrap, ANSWER_S, access)) as kafka:
            check_groups(kafka, existing.groups)
    return metadata


def reach(bootstrap: str, access: Access | None) -> Metadata:
    """Return the brokers and topics of a cluster, after a connection to each of its brokers."""
    metadata = _ask(bootstrap, access)
    _connect_to_all(metadata, access)
    return metadata


def check_partition(partition: TopicPartition, metadata: Metadata) -> None:
    """Raise `UsageError` if the cluster does not have a partition, with the nearest names of topics."""
    numbers = [p.number for p in metadata.partitions if p.topic == partition.topic]
    if not numbers:
        raise no_topic(partition.topic, metadata)
    if partition.number not in numbers:
        raise UsageError(f"{partition.topic} has partitions 0 to {max(numbers)}, not {partition.number}")


def no_topic(name: str, metadata: Metadata) -> UsageError:
    """Return the error for a topic that the cluster does not have, with the nearest names."""
    names = sorted({p.topic for p in metadata.partitions if not p.topic.startswith("__")})
    return UsageError(f"the cluster has no topic {name!r}{_nearest(name, names, 'topics')}")


def check_groups(kafka: Kafka, groups: Collection[str]) -> None:
    """Raise `UsageError` if the cluster lacks one of the groups, with the nearest ids."""
    found = list_groups(kafka, lambda group: True)
    if found is None:
        raise ClusterError(
            "the cluster does not list its groups, so it is not known whether the groups of faults exist"
        )
    if missing := sorted(set(groups).difference(found)):
        raise UsageError(f"the cluster has no group {missing[0]!r}{_nearest(missing[0], found, 'groups')}")


def _nearest(name: str, names: Sequence[str], kind: str) -> str:
    near = get_close_matches(name, names, SHOWN, 0.6)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"; its {kind} are {', '.join(names[:SHOWN])}{more}" if names else f"; it has no {kind}"


def _ask(bootstrap: str, access: Access | None) -> Metadata:
    if access:
        access.check()
    _connect_to_any(bootstrap, access)
    kafka = Kafka(bootstrap, ANSWER_S, access)
    try:
        metadata = kafka.metadata()
    finally:
        kafka.close()
    if metadata is None:
        raise ClusterError(f"{bootstrap} accepts connections, but sends no metadata within {ANSWER_S:g} s")
    return metadata


def _connect_to_all(metadata: Metadata, access: Access | None) -> None:
    for broker, address in metadata.brokers.items():
        _connect(*address, access, ANSWER_S, f"broker {broker} is advertised at {address[0]}:{address[1]}, and ")


def _connect_to_any(bootstrap: str, access: Access | None) -> None:
    """Return when one of the bootstrap servers accepts a connection."""
    problems = []
    servers = addresses(bootstrap)
    for host, port in servers:
        try:
            _connect(host, port, access, ANSWER_S / len(servers))
            return
        except ClusterError as e:
            problems.append(str(e))
    raise ClusterError("; ".join(problems))


def _connect(host: str, port: int, access: Access | None, timeout_s: float, before: str = "") -> None:
    """Connect, log in and send one request. Raises an error that the user can act on."""
    server, began = f"{host}:{port}", time.monotonic()
    link = BrokerConnection(host, port, access)
    try:
        link.ask(messages.versions(), timeout_s)
    except AccessRefused as e:
        raise UsageError(f"{before}{e}; see cluster.security") from None
    except ssl.SSLCertVerificationError as e:
        hint = "cluster.security.ca names the authorities to trust"
        raise UsageError(f"{before}the certificate of {server} is not trusted: {e.verify_message}; {hint}") from None
    except ssl.SSLError as e:
        why = (e.reason or str(e)).replace("_", " ").lower()
        hint = "does that port use TLS, and does it require a client certificate?"
        raise UsageError(f"{before}the TLS handshake with {server} failed: {why}; {hint}") from None
    except TimeoutError:
        waited = time.monotonic() - began
        raise ClusterError(f"{before}{server} did not answer in {waited:.0f} s{_protocol_hint(access)}") from None
    except socket.gaierror as e:
        raise ClusterError(f"{before}{host} cannot be resolved: {e.strerror}") from None
    except ConnectionRefusedError:
        raise ClusterError(f"{before}nothing listens at {server}") from None
    except (ConnectionError, BrokenPipeError) as e:
        reason = e.strerror or e
        raise ClusterError(f"{before}{server} closed the connection: {reason}{_protocol_hint(access)}") from None
    except OSError as e:
        raise ClusterError(f"{before}{server} cannot be reached: {e.strerror or e}") from None
    finally:
        link.close()


def _protocol_hint(access: Access | None) -> str:
    protocol = access.security.protocol if access else "PLAINTEXT"
    return f"; is that port one for {protocol} (cluster.security.protocol)?"


def _check(existing: Existing, metadata: Metadata) -> None:
    """Raise `UsageError` if the cluster lacks what the scenario needs, or already has topics with its prefix."""
    brokers = metadata.brokers
    if len(brokers) < existing.replicas:
        raise UsageError(
            f"the cluster at {existing.bootstrap} has {len(brokers)} brokers, and the scenario's topics "
            f"have {existing.replicas} replicas"
        )
    if unknown := existing.brokers - brokers.keys():
        has = ", ".join(map(str, brokers))
        raise UsageError(f"the cluster has no broker {', '.join(map(str, sorted(unknown)))}; it has {has}")
    if existing.prefix and (foreign := [p for p in metadata.partitions if p.topic.startswith(existing.prefix)]):
        raise UsageError(f"the cluster has {foreign[0]} already, which this run did not make; nothing was touched")


CONNECT_S = 2.0
"""The timeout for a connection to a broker."""
TAKEN_DOWN: tuple[BrokerStatus, ...] = ("killed", "stopped", "starting")
"""The status of a broker that the run took down and that is not back."""


class AttachedCluster(Cluster):
    """An existing cluster, for one run; `address` is what a broker advertised when the run began.

    It operates on brokers with the user's commands. The exit code of a command is not enough: a broker that was killed
    or stopped must refuse connections, a broker that was started must answer and appear in the metadata.

    A start command that ended with exit code 0 is not run again before the broker is taken down again: a broker may
    take long to start.
    """

    def __init__(self, run: Run, state: ClusterState) -> None:
        super().__init__(run, state)
        self._starts: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        """By broker, held while its start command runs: two faults of one broker may heal at once."""

    @classmethod
    def deploy(
        cls, run: Run, spec: ClusterSpec, owner: ProcessId | None, deadline_s: float, on_progress: Progress = silent
    ) -> Self:
        """Connect to the cluster; this creates nothing there.

        Raises `UsageError` if the cluster refuses access or lacks what the run needs, `ClusterError` if it does not
        answer.
        """
        existing = spec.existing
        if existing is None:
            raise UsageError("the attached driver needs an existing cluster: cluster.bootstrap in a scenario")
        if run.cluster.exists() and not _attachment(state.load(run)).cleared:
            raise ClusterError(f"{run.path} is attached to a cluster already; destroy it first, or make a new run")
        on_progress(f"connecting to {existing.bootstrap}")
        metadata = discover(existing, Access.of(existing.security))
        with deployment.deploying(run, spec, owner, deadline_s, partial(cls.clear, run)) as deploying:
            brokers = [
                NodeState(id=b, kafka="", host=host, port=port, state="running")
                for b, (host, port) in metadata.brokers.items()
            ]
            cluster_state = deploying.new_state("attached", brokers, existing.bootstrap, metadata.cluster_id)
            cluster_state.attached = Attachment(
                prefix=existing.prefix, security=existing.security, verbs=existing.verbs
            )
            cluster_state.save(run.cluster)
        return cls(run, cluster_state)

    @staticmethod
    def clear(run: Run) -> None:
        """Restore the cluster: brokers back, topics and groups of the run removed. Raises `AftershockError`."""
        cluster_state = state.load(run)
        attached = _attachment(cluster_state)
        if attached.cleared:
            return
        for command in attached.commands:
            end_command(command)  # another process started it
            wait_gone([command], 10)
        problems = AttachedCluster(run, cluster_state)._restore_brokers()
        try:
            if attached.prefix:
                cleanup.remove(
                    cluster_state.bootstrap, lambda name: name.startswith(attached.prefix), cluster_state.access()
                )
        except AftershockError as e:
            again = f"remove what begins with {attached.prefix}, or try again: python -m chaos down {run.path}"
            raise type(e)(f"{e}; {again}") from None
        attached.cleared, attached.commands = True, []
        cluster_state.save(run.cluster)
        if problems:
            raise ClusterError("; ".join(problems))

    def broker_alive(self, broker: int) -> bool:
        """Return whether the broker accepts a connection; the kernel accepts for a paused broker."""
        return accepts_connections(*self.address(broker), CONNECT_S, self._access)

    def kill_broker(self, broker: int) -> None:
        """Run the kill command, and wait until the broker is gone. Raises `ClusterError` if it was gone before."""
        self._take_down("kill", broker, "killed")

    def stop_broker(self, broker: int) -> None:
        """Run the stop command, and wait until the broker is gone. Raises `ClusterError` if it was gone before."""
        self._take_down("stop", broker, "stopped")

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several brokers together: without a quorum majority, a single broker never becomes ready.

        Wait also for brokers that a supervisor has started again.
        """
        with ThreadPoolExecutor(max(1, len(brokers))) as pool:  # a command may wait for its broker
            ordered = zip(brokers, pool.map(self._order_start, brokers), strict=True)
            down = [broker for broker, was_down in ordered if was_down]
        back = [b for b in brokers if self.state.node(b).state in TAKEN_DOWN]
        for broker in dict.fromkeys([*down, *back]):
            self._wait_for(partial(self._ready, broker), f"broker {broker} is not ready")
            self._set_status(broker, "running")

    def _order_start(self, broker: int) -> bool:
        """Run the start command of a broker that is down, unless it has run; return whether the broker is down."""
        with self._starts[broker]:
            if self.broker_alive(broker):
                return False
            if self.state.node(broker).state != "starting":
                self._command("start", broker)
                self._set_status(broker, "starting")
            return True

    def pause_broker(self, broker: int) -> None:
        """Run the pause command. Raises `ClusterError` if the broker is gone."""
        self._check_reachable("paused", broker)
        self._set_status(broker, "paused")  # first: a command that fails may have paused the broker
        self._command("pause", broker)

    def resume_broker(self, broker: int) -> None:
        """Run the resume command; do nothing if the broker is not paused. Raises `ClusterError` if it is gone."""
        self._check_reachable("resumed", broker)
        if self.state.node(broker).state == "paused":
            self._command("resume", broker)
            self._set_status(broker, "running")

    def end_brokers(self) -> None:
        """Do nothing: the brokers belong to the user."""

    def _record_end(self) -> None:
        self.state = state.load(self.run)  # `clear` has changed the file; the brokers continue

    def _take_down(self, verb: str, broker: int, status: BrokerStatus) -> None:
        """Run a command, and wait until the broker is gone.

        A supervisor may restart the broker quickly, so the check runs during the command too.
        """
        self._check_reachable(status, broker)
        self._set_status(broker, status)
        gone = threading.Event()

        def check_gone() -> bool:
            if not gone.is_set() and not self.broker_alive(broker):
                gone.set()
            return gone.is_set()

        self._command(verb, broker, meanwhile=check_gone)
        self._wait_for(check_gone, f"broker {broker} is still there after the {verb} command")

    def _check_reachable(self, status: str, broker: int) -> None:
        if not self.broker_alive(broker):
            address = self.state.node(broker).address
            raise ClusterError(f"broker {broker} cannot be {status}: it is not there, at {address}")

    def _command(self, verb: str, broker: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        command = _attachment(self.state).verbs.commands().get(verb)
        if command is None:
            raise ClusterError(f"there is no command to {verb} a broker: give cluster.verbs.{verb}")
        run_command(
            f"{verb} of broker {broker}",
            fill_in(command, broker, *self.address(broker)),
            self._timeout_s,
            self.run.logs / "verbs.log",
            self._access.secrets if self._access else (),
            meanwhile=meanwhile,
            on_change=self._record_command,
        )

    def _record_command(self, command: ProcessId, running: bool) -> None:
        with self._lock:
            attached = _attachment(self.state)
            attached.commands = [c for c in attached.commands if c != command] + ([command] if running else [])
            self.state.save(self.run.cluster)

    def _ready(self, broker: int) -> bool:
        kafka = Kafka(self.state.node(broker).address, CONNECT_S, self._access, topics=())
        try:
            metadata = kafka.metadata()
        finally:
            kafka.close()
        return metadata is not None and broker in metadata.brokers

    def _restore_brokers(self) -> list[str]:
        """Start or resume every broker that the run took down, and return the problems."""
        problems = []
        for broker in self.state.brokers:
            try:
                if broker.state == "paused":
                    self.resume_broker(broker.id)
                elif broker.state in TAKEN_DOWN:
                    self.start_broker(broker.id)
            except AftershockError as e:
                was = "taken down" if broker.state == "starting" else broker.state
                problems.append(f"broker {broker.id} was {was} by the run and is not back: {e}")
        return problems

    @cached_property
    def _access(self) -> Access | None:
        return self.state.access()

    def _wait_for(self, condition: Callable[[], bool], why: str) -> None:
        wait_until(condition, self._timeout_s, why, every_s=0.1, error=ClusterError)

    @property
    def _timeout_s(self) -> float:
        return _attachment(self.state).verbs.timeout


def _attachment(cluster_state: ClusterState) -> Attachment:
    if cluster_state.attached is None:
        raise ClusterError(f"this run uses the {cluster_state.driver} driver, and no existing cluster")
    return cluster_state.attached
