"""One tap: it begins, records until it is asked to end, finds out who spoke, and leaves a run that the checks judge."""

from __future__ import annotations

import json
import platform
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from chaos import __version__
from chaos.cluster import state
from chaos.cluster.attached.driver import AttachedCluster, reach
from chaos.cluster.reaper import end_all
from chaos.cluster.secured.certificates import Authority
from chaos.cluster.secured.credentials import before_existing
from chaos.cluster.settings import ClusterSpec, Existing, Verbs
from chaos.drive.stages import ask_settings
from chaos.ending import Ending
from chaos.errors import AftershockError, ClusterError, MachineError, RunDirError, UsageError
from chaos.kafka.client import Kafka
from chaos.kafka.metadata import Metadata
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access
from chaos.ledger.seal import seal as seal_ledger
from chaos.processes.process import ProcessId
from chaos.relay.capture import FOLDER, SEAL
from chaos.relay.contents import by_id
from chaos.relay.control import Proxy, start_proxy
from chaos.relay.roles import Address, Encryption
from chaos.relay.segments import Tail
from chaos.run.directory import Run, write_atomically
from chaos.run.events import UNSEEN, EventLog, now_us
from chaos.run.tap import Sitting, TapRecord, path_of, tapped
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved, read, save
from chaos.tap.live import Reader
from chaos.tap.order import Order
from chaos.tap.speakers import Process, ambiguous, named, processes
from chaos.tap.watch import Watch
from chaos.units import rounded_size

FRONT = "tap"
FOREVER_S = 10 * 365 * 86_400.0
"""A tap has no deadline. Its reaper ends when the tap does."""
ANSWER_S = 10.0
TICK_S, TRAFFIC_S, WATCH_S = 0.2, 2.0, 5.0
GROWTH_S = 60.0
"""Time after which the tap says how fast its capture grows."""
KEPT_FREE = 512 * 2**20
"""Bytes that a capture leaves free on its disk."""
AUTHORITY_VALID, CERTIFICATE_VALID = timedelta(days=3650), timedelta(days=365)
"""Applications trust the authority for good; each start makes another certificate."""
PIDS, TLS_FOLDER = "tap.pids", "tls"
SPEAKERS = "finding out who spoke"


class Tap:
    """A tap that begins when it is made. Leaving the context ends the relay, and everything of the run."""

    def __init__(self, run: Run, order: Order, events: EventLog, on_traffic: Callable[[str], None], resumed: bool):
        self._run, self._order, self._events, self._on_traffic = run, order, events, on_traffic
        self._stack = ExitStack()
        self._record = (tapped(run) if resumed else None) or TapRecord(
            listen=order.listen, advertise=order.advertise, ports={}
        )
        self._resumed = resumed
        self._reader = Reader(self._say, self._pid_of)
        self._tail = Tail(run.path / FOLDER, len(segments(run)) + 1)
        self._live = False
        """Whether what is read has just passed, so that its processes are there. What was before is read at the end."""
        self._pids: dict[str, int] = {}
        self._known_pids = _kept_pids(run)
        self._own_addresses = {a.address for own in psutil.net_if_addrs().values() for a in own}
        self._recreated: set[str] = set()

    def __enter__(self) -> Tap:
        try:
            with self._events.stage("deploy", f"connecting to {self._order.bootstrap}"):
                self._begin()
        except BaseException:
            self.__exit__()
            if not self._resumed:
                shutil.rmtree(self._run.path, ignore_errors=True)  # nothing was recorded
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        end_all(self._run.path)

    def _say(self, words: str) -> None:
        self._events.note(words, aside=True)

    @property
    def address(self) -> str:
        """The bootstrap servers for applications."""
        return ",".join(f"{self._record.advertise}:{port}" for port in self._record.ports.values())

    @property
    def _authority(self) -> Path:
        return self._order.authority or self._run.path / TLS_FOLDER

    def _begin(self) -> None:
        """Connect to the cluster, note where its logs end, and start the relay in front of it."""
        order, run = self._order, self._run
        if not self._resumed:
            save(run, _resolved(run, order, [], []))
        end_all(run.path)  # what a tap left that was killed
        run.cluster.unlink(missing_ok=True)
        metadata = _reached(order)
        spec = ClusterSpec(existing=Existing(order.bootstrap, "", order.security, Verbs()))
        cluster = AttachedCluster.deploy(run, spec, ProcessId.current(), FOREVER_S, self._events.note)
        access = cluster.state.access()
        self._kafka = Kafka(cluster.bootstrap, ANSWER_S, access)
        self._stack.callback(self._kafka.close)
        self._record.finals, self._record.stopped = {}, ""
        if not self._record.sittings:
            self._record.begins = _ends(self._kafka, metadata)
            self._record.topic_ids = dict(metadata.topic_ids)
        addresses = {broker: cluster.address(broker) for broker in cluster.broker_ids}
        self._record.ports = _ports(self._record.ports, sorted(addresses), order.port)
        number = len(self._record.sittings)
        for last in self._record.sittings[-1:]:
            last.ended_us = last.ended_us or last_seen_us(run)  # before the next relay writes there
        encryption = self._encryption() if order.tls else None
        start_proxy(run, addresses, ProcessId.current(), False, order.payloads, encryption, number)
        self._proxy = self._stack.enter_context(Proxy(run))
        self._note_gap()
        self._record.sittings.append(Sitting(began_us=now_us()))
        self._record.save(run)
        try:
            self._proxy.front(FRONT, order.listen, order.advertise, self._record.ports)
        except ClusterError as e:
            raise UsageError(
                f"{str(e).partition('ValueError: ')[2] or e}; end what listens there, or choose another --listen: the "
                f"tap takes a port for each broker, here {_listed(self._record.ports)}"
            ) from None
        self._announce()

    def _note_gap(self) -> None:
        """Say for which time nothing was recorded, if another sitting came before."""
        if not self._record.sittings:
            return
        ended_us = self._record.sittings[-1].ended_us or now_us()
        gap = f"from {clock(ended_us)} to {clock(now_us())} ({(now_us() - ended_us) / 1e6:.0f} s)"
        self._events.emit(UNSEEN, words=f"the tap did not run {gap}, so what passed then, or just before, is not known")
        self._say(f"the tap goes on after a gap {gap}; what depends on it is not decided")

    def _announce(self) -> None:
        """Say where applications connect, and what the capture costs."""
        order, ports = self._order, self._record.ports
        self._events.note(f"applications connect to {self.address}: {_listed(ports)}")
        if self._order.tls:
            ca = self._authority / "ca.pem"
            self._events.note(f"the tap ends TLS: applications have to trust {ca} (ssl.ca.location, ssl.truststore.*)")
        free, limit = shutil.disk_usage(self._run.path).free, self._limit()
        words = f"the capture may take {rounded_size(limit)} ({rounded_size(free)} are free)"
        cost = "some 150 bytes for each record and reader" + ("" if order.payloads == "none" else ", and the records")
        self._events.note(f"{words}; it takes {cost}; after a minute the tap says what an hour takes")

    def _limit(self) -> int:
        free, used = shutil.disk_usage(self._run.path).free, capture_size(self._run)
        most = max(0, free - KEPT_FREE) + used
        limit = min(most, self._order.limit or most)
        if limit <= used:
            raise MachineError(
                f"{rounded_size(free)} are free at {self._run.path}, and the tap leaves {rounded_size(KEPT_FREE)} of "
                "them; make room, or choose another --runs-dir"
            )
        return limit

    def _encryption(self) -> Encryption:
        """Make the certificate with which the tap ends the TLS of applications; its authority stays over restarts."""
        folder, security = self._authority, self._order.security
        folder.mkdir(exist_ok=True)
        certificate, key = folder / "ca.pem", folder / "ca.key"
        if not certificate.exists():
            Authority.create("aftershock-tap-ca", AUTHORITY_VALID).save(certificate, key)
            certificate.chmod(0o644)  # for applications of other users; the keys are not
        hosts = [self._order.listen, self._order.advertise, "localhost"]
        named = [host for host in hosts if host != "0.0.0.0"]
        return before_existing(folder, security, Authority.load(certificate, key), named, CERTIFICATE_VALID)

    def record(self, ending: Ending) -> None:
        """Record, and say what is seen, until the tap is to end; then end the capture."""
        with self._events.stage("load", "recording what passes; Ctrl-C ends that, and judges it"):
            self._follow(ending)
            self._seal()  # once more if the disk was full then
        with self._events.stage("seal", SPEAKERS):
            self.finish()

    def _seal(self) -> None:
        """End the capture, and note where the logs end: what comes later was not recorded.

        Raises `ClusterError` or `OSError` if there is no room for the seal, when the capture has ended.
        """
        try:
            self._proxy.seal()
        finally:
            if self._record.sittings[-1].ended_us is None:
                self._record.sittings[-1].ended_us = now_us()
                metadata = self._kafka.metadata()
                ends = self._kafka.end_offsets(_judged(metadata)) if metadata else {}
                self._record.finals = {str(p): end for p, end in ends.items()}
        self._record.save(self._run)

    def _follow(self, ending: Ending) -> None:
        self._live = True
        watching = threading.Thread(target=self._watch, args=(ending,), name="watch", daemon=True)
        watching.start()
        began, shown, requests, limit = time.monotonic(), time.monotonic(), 0, self._limit()
        said_growth, before = False, capture_size(self._run)
        while not ending.wait(TICK_S):
            self._proxy.check()
            self._pids.clear()  # another process may have a port by now
            self._reader.read(self._tail.new())
            self._reader.repeat(now_us())
            now = time.monotonic()
            if now - shown >= TRAFFIC_S:
                rate = (self._reader.requests - requests) / (now - shown)
                shown, requests = now, self._reader.requests
                size = capture_size(self._run)
                self._on_traffic(
                    f"{self._reader.clients} clients · {rate:,.0f} requests/s · capture {rounded_size(size)}"
                )
                if not (said_growth or self._record.stopped) and now - began >= GROWTH_S:
                    said_growth = True
                    self._say_growth(size - before, now - began, limit - size)
                if not self._record.stopped:
                    self._stop_if_full(size, limit)
        watching.join(ANSWER_S)

    def _say_growth(self, grown: int, seconds: float, left: int) -> None:
        hourly = grown / seconds * 3600
        lasts = f", enough for {left / hourly:,.0f} hours" if hourly else ""
        self._say(f"the capture takes {rounded_size(int(hourly))} an hour at this rate{lasts}")

    def _stop_if_full(self, size: int, limit: int) -> None:
        """End the capture, not the traffic, before there is no room."""
        failure = self._proxy.status()["failure"]
        if not (why := failure or full(size, limit, self._run.path)):
            return
        self._record.stopped = why
        with suppress(ClusterError, OSError):  # it is sealed when the tap ends, if there is room then
            self._seal()
        say = self._events.problem if failure else self._say
        say(f"the recording ended at {clock(now_us())}: {why}; traffic passes as before, and Ctrl-C judges what it has")

    def _watch(self, ending: Ending) -> None:
        """Ask the cluster, until the tap ends."""
        with closing(Kafka(self._order.bootstrap, ANSWER_S, Access.of(self._order.security))) as kafka:
            watch = Watch(kafka, self._say, self._moved)
            while not ending.wait(WATCH_S):
                groups = {group: set(topics) for group, topics in list(self._reader.groups.items()) if topics}
                try:
                    self._ids(watch.look(time.monotonic(), set(self._reader.topics), groups))
                except (AftershockError, OSError) as e:
                    self._say(f"the cluster was not looked at: {e}")
                self._recreated = watch.recreated

    def _moved(self, broker: int, address: Address, new: bool) -> None:
        """Go on in front of a broker with another address, or of a new one."""
        at = f"{address[0]}:{address[1]}"
        if not new:
            self._proxy.broker(broker, address)
            self._say(f"broker {broker} is at {at} now, and the tap goes on there")
            return
        port = max(self._record.ports.values()) + 1
        try:
            self._proxy.broker(broker, address, port)
        except ClusterError as e:
            words = (
                f"broker {broker} joined at {at}, and the tap has no port for it ({e}): clients go past the tap there"
            )
            self._events.emit(UNSEEN, words=words)
            self._say(words)
            return
        self._record.ports[broker] = port
        self._record.save(self._run)
        self._say(f"broker {broker} joined at {at}; applications reach it at {self._record.advertise}:{port}")

    def _ids(self, metadata: Metadata | None) -> None:
        """Take the names of topics by their ids."""
        self._reader.learn(by_id(metadata.topic_ids) if metadata else {})

    def _pid_of(self, connection: int, peer: str) -> int | None:
        """Return the process of a connection, if it is one of this machine that this user may see; keep it."""
        if connection in self._known_pids:
            return self._known_pids[connection]
        if not self._live or peer.rpartition(":")[0] not in self._own_addresses:
            return None
        if peer not in self._pids:
            self._pids = _local_processes()
        if (pid := self._pids.get(peer)) is not None:
            self._known_pids[connection] = pid
            with suppress(OSError), (self._run.path / PIDS).open("a", encoding="ascii") as known:
                known.write(f"{connection} {pid}\n")
        return pid

    def finish(self) -> None:
        """Find out who spoke and what to judge, and write it down for the checks."""
        self._reader.read(self._tail.new())
        self._reader.repeat(now_us(), all_of_them=True)
        record = self._record
        metadata = self._kafka.metadata()
        if self._resumed:  # only what is new was read until now
            self._live, self._reader = False, Reader(None, self._pid_of)
            self._reader.learn(by_id(record.topic_ids))
            self._ids(metadata)
            self._reader.read(Tail(self._run.path / FOLDER).new())
        if not self._reader.topics:
            raise AftershockError(
                f"nothing to judge: no client of {self.address} wrote to a topic or read from one; do applications "
                "have this address in place of the brokers'?"
            )
        if record.sittings[-1].ended_us is None:
            record.sittings[-1].ended_us = now_us()
        if metadata is None:
            raise ClusterError(f"{self._order.bootstrap} does not answer, so it is not known what its topics are")
        found = processes(self._reader.connections.values())
        names = named(found)
        record.instances = {c.number: name for name, process in names.items() for c in process.connections}
        record.ends = {name: p.closed_us for name, p in names.items() if p.closed_us < record.sittings[-1].ended_us}
        record.ambiguous = list(ambiguous(found).values())
        topics, record.unjudged = self._topics(metadata)
        apps = self._apps(names, {str(topic["name"]) for topic in topics})
        record.save(self._run)
        resolved = _resolved(self._run, self._order, topics, apps)
        save(self._run, resolved)
        with self._events.stage("topics", "asking for the settings of the topics"):
            cluster = AttachedCluster(self._run, state.load(self._run))
            scenario = ask_settings(self._run, resolved, cluster, self._events)
        self._leave_out_compacted(scenario)
        seal_ledger(self._run.ledger)
        for what, why in record.unjudged.items():
            self._say(f"{what} is not judged: {why}")
        for words in record.ambiguous:
            self._say(words)

    def _apps(self, names: Mapping[str, Process], topics: set[str]) -> list[dict[str, Any]]:
        """Return the groups to judge as a scenario has them; note the others with the reason."""
        entries: dict[str, str] = {}
        for name, process in names.items():
            for group in process.groups:
                entries.setdefault(group, name.rpartition("/")[0])
                if len(process.groups) > 1:
                    why = f"{name} is a member of {' and '.join(sorted(process.groups))}, and reads for both"
                    self._record.unjudged[f"group {group}"] = why
        for kind in sorted(self._reader.strange):
            self._record.unjudged[kind] = "a tap does not read their protocol"
        found = []
        for group, entry in sorted(entries.items()):
            reads = sorted(self._reader.groups[group] & topics)
            if reads and f"group {group}" not in self._record.unjudged:
                found.append({"name": entry, "external": True, "group": group, "reads": reads})
        return found

    def _topics(self, metadata: Metadata) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Return the topics to judge as a scenario has them, and the others with the reason."""
        judged, others = [], {}
        for topic in sorted(self._reader.topics):
            partitions = [s for p, s in metadata.partitions.items() if p.topic == topic]
            if topic.startswith("__"):
                continue
            own, first = metadata.topic_ids.get(topic), self._record.topic_ids.get(topic)
            if not partitions:
                others[f"topic {topic}"] = "it was deleted while the tap ran, or does not exist"
            elif topic in self._recreated or (first and own != first):
                others[f"topic {topic}"] = "it was deleted and created again while the tap ran"
            else:
                replicas = min(len(state.replicas) for state in partitions)
                judged.append({"name": topic, "partitions": len(partitions), "replication_factor": replicas})
        return judged, others

    def _leave_out_compacted(self, scenario: Scenario) -> None:
        """Leave out topics that are compacted: what compaction removed is not visible on the wire."""
        compacted = scenario.compacted
        if not compacted:
            return
        resolved = read(self._run)
        topics = [topic for topic in resolved.scenario.topics if topic.name not in compacted]
        apps = [
            a.model_copy(update={"reads": [t for t in a.reads if t not in compacted]}) for a in resolved.scenario.apps
        ]
        changed = {"topics": topics, "apps": [app for app in apps if app.reads]}
        save(self._run, resolved.model_copy(update={"scenario": resolved.scenario.model_copy(update=changed)}))
        why = "it is compacted, and keys are not visible on the wire"
        self._record.unjudged |= {f"topic {topic}": why for topic in sorted(compacted)}
        self._record.save(self._run)


def judge_later(run: Run, events: EventLog) -> None:
    """Prepare the folder of a tap that was killed, or left before it was judged, for the checks.

    Raises `AftershockError` if the cluster does not answer.
    """
    record, resolved = tapped(run), read(run)
    if record is None:
        raise UsageError(f"{run.path} is no folder of a tap: it has no {path_of(run).name}")
    if not segments(run):
        raise RunDirError(f"{run.path} has no capture: nothing passed the tap")
    cluster = resolved.scenario.cluster
    assert cluster.bootstrap is not None  # of the attached driver
    order = Order(
        cluster.bootstrap,
        cluster.security.given(),
        record.listen,
        0,
        record.advertise,
        resolved.scenario.captured or "none",
        options=resolved.options,
    )
    tap = Tap(run, order, events, lambda words: None, True)
    tap._kafka = Kafka(order.bootstrap, ANSWER_S, Access.of(order.security))
    with closing(tap._kafka):
        last = record.sittings[-1]
        if not (run.path / FOLDER / SEAL).exists():
            killed = "its process was killed, or its disk was full, so that its last moments are not recorded"
            seal = {"segments": [], "entries": 0, "payloads": order.payloads, "failure": killed}
            write_atomically(run.path / FOLDER / SEAL, json.dumps(seal))
            last.ended_us = last.ended_us or last_seen_us(run)
        tap._record = record
        with events.stage("drive", "reading the capture"), events.stage("seal", SPEAKERS):  # as if it ended now
            tap.finish()


def segments(run: Run) -> list[Path]:
    """Return the files of a capture."""
    return [*(run.path / FOLDER).glob("*.wire")]


def last_seen_us(run: Run) -> int:
    """Return when something was last written to a capture."""
    return max((p.stat().st_mtime_ns // 1000 for p in segments(run)), default=now_us())


def capture_size(run: Run) -> int:
    """Return the bytes of a capture."""
    return sum(path.stat().st_size for path in segments(run))


def full(size: int, limit: int, folder: Path) -> str:
    """Return why a capture of so many bytes cannot grow; empty if it can."""
    if size >= limit:
        return f"it has {rounded_size(size)}, its limit is {rounded_size(limit)}"
    free = shutil.disk_usage(folder).free
    return f"only {rounded_size(free)} are left at {folder}" if free <= KEPT_FREE // 2 else ""


def clock(at_us: int) -> str:
    """Return a time of the day, in UTC."""
    return time.strftime("%H:%M:%S UTC", time.gmtime(at_us / 1e6))


def _reached(order: Order) -> Metadata:
    """Return the metadata of the cluster. Raises errors that say what to do."""
    try:
        return reach(order.bootstrap, Access.of(order.security))
    except UsageError as e:
        raise UsageError(f"{e} (--cluster FILE)") from None
    except ClusterError as e:
        raise ClusterError(
            f"{e}; a tap begins when each broker that the cluster lists answers: try again then"
        ) from None


def _ends(kafka: Kafka, metadata: Metadata) -> dict[str, int]:
    """Return the end of each log, but of Kafka's own topics. Raises `ClusterError` if a leader does not answer."""
    partitions = _judged(metadata)
    ends = kafka.end_offsets(partitions)
    if missing := [p for p in partitions if p not in ends]:
        raise ClusterError(
            f"the leader of {missing[0]}{f' and {len(missing) - 1} more' * (len(missing) > 1)} does not say where its "
            "log ends, so the tap does not know what was there before; try again when each partition has a leader"
        )
    return {str(partition): end for partition, end in ends.items()}


def _judged(metadata: Metadata) -> list[TopicPartition]:
    """Return the partitions that a tap may judge: all but Kafka's own."""
    return [p for p in metadata.partitions if not p.topic.startswith("__")]


def _ports(known: Mapping[int, int], brokers: Sequence[int], first: int) -> dict[int, int]:
    """Return the port for each broker: the one that it had, else the next one."""
    ports, following = {b: p for b, p in known.items() if b in brokers}, max(known.values(), default=first - 1) + 1
    for broker in brokers:
        if broker not in ports:
            ports[broker], following = following, following + 1
    return ports


def _listed(ports: Mapping[int, int]) -> str:
    return ", ".join(f"broker {broker} at port {port}" for broker, port in ports.items())


def _kept_pids(run: Run) -> dict[int, int]:
    """Return the processes by connection that were noted before."""
    path = run.path / PIDS
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    pairs = [line.split() for line in lines]
    return {int(pair[0]): int(pair[1]) for pair in pairs if len(pair) == 2}


def _place(bootstrap: str) -> str:
    """Return the cluster for people."""
    first, *others = bootstrap.split(",")
    return f"{first[:100]}{f' and {len(others)} more' if others else ''}"


def _local_processes() -> dict[str, int]:
    """Return the processes of this machine by their addresses of TCP; 0 for those that this user may not see.

    A connection that its client has closed has no process any more.
    """
    found = {}
    try:
        for connection in psutil.net_connections("tcp"):
            open_here = connection.pid or connection.status == psutil.CONN_ESTABLISHED
            if open_here and connection.laddr and connection.raddr:
                found[f"{connection.laddr.ip}:{connection.laddr.port}"] = connection.pid or 0
    except (psutil.Error, OSError):  # not allowed here: then client ids tell processes apart
        return {}
    return found


def _resolved(run: Run, order: Order, topics: list[dict[str, Any]], apps: list[dict[str, Any]]) -> Resolved:
    """Return the run as the checks read it: topics and readers that were seen, judged on the wire."""
    cluster = {
        "driver": "attached",
        "bootstrap": order.bootstrap,
        "security": order.security.absolute().model_dump(exclude_none=True),
    }
    scenario = Scenario.model_validate(
        {
            "title": f"What passed the tap before {_place(order.bootstrap)}",
            "cluster": cluster,
            "capture": {"payloads": order.payloads, "judged": "wire"},
            "topics": topics,
            "producers": [],
            "apps": apps,
            "expect": {"stalled_delivery": {"min": 0}, "stalled_share": {"min": 0}},
        }
    )
    versions = {
        "aftershock": __version__,
        "kafka": "of the attached cluster",
        "pyspark": version("pyspark"),
        "great-expectations": version("great-expectations"),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
    }
    created = tapped(run)
    began = created.sittings[0].began_us if created and created.sittings else now_us()
    return Resolved(
        run_id=run.run_id,
        name="tap",
        seed=0,
        scenario=scenario,
        versions=versions,
        created_us=began,
        options=[*order.options],
    )
