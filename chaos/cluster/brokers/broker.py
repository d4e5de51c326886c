"""One broker that the platform starts itself: its files, and whether it is ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kafka.protocol.metadata import MetadataRequest

from chaos.cluster.brokers.jvm import Job, log_of
from chaos.cluster.brokers.log import read_from, telling_lines
from chaos.cluster.brokers.release import Release
from chaos.cluster.brokers.storage import copy_storage
from chaos.cluster.settings import properties
from chaos.cluster.state import BrokerState
from chaos.errors import ClusterError, WaitTimeout
from chaos.kafka.brokers import METADATA
from chaos.kafka.connection import Link
from chaos.run.directory import Run
from chaos.wait import wait_until

_ANSWER_S = 1.0


class BrokerDied(ClusterError):
    """A broker, or its ZooKeeper, ended while it should have become ready.

    `port_taken`: because something listens on its port.
    """

    def __init__(self, message: str, port_taken: bool) -> None:
        super().__init__(message)
        self.port_taken = port_taken


def role(broker: int) -> str:
    """The mark of a broker's process; also the name of its log."""
    return f"broker-{broker}"


def home(run: Run, broker: int) -> Path:
    """The broker's working directory: settings and data."""
    return run.brokers / str(broker)


def lay_out(run: Run, broker: int, settings: dict[str, str], release: Release, cluster_id: str) -> None:
    """Write the settings and the formatted storage of a new broker."""
    home(run, broker).mkdir(parents=True)
    if release.storage is not None:
        copy_storage(release.storage, home(run, broker) / "data", broker, cluster_id)
    (home(run, broker) / "server.properties").write_text(properties(settings), encoding="ascii")


def cluster_id(run: Run, broker: int) -> str:
    """The cluster's id as the broker has written it beside its data."""
    text = (home(run, broker) / "data" / "meta.properties").read_text(encoding="ascii")
    return next(line.partition("=")[2] for line in text.splitlines() if line.startswith("cluster.id="))


def job(run: Run, broker: int, heap_bytes: int) -> Job:
    """What a broker's JVM runs."""
    return Job(role(broker), home(run, broker), ("kafka.Kafka", "server.properties"), heap_bytes)


class Starting:
    """A broker on its way up. Make it just before the start: what its log says from then on is of this life.

    `ended` says how it ended, such as "was killed by signal 9"; None while it lives.
    """

    def __init__(self, run: Run, known: BrokerState) -> None:
        self.broker = known.id
        self.log = log_of(run, role(known.id))
        self.ended: Callable[[], str | None] = lambda: None
        self._offset = self.log.stat().st_size if self.log.exists() else 0
        # a client library would soon ask the others that it is told of, and they may know more than this very broker
        self._link = Link(known.host, known.port)

    def sees(self, brokers: Sequence[int]) -> bool:
        """Whether it answers, and with metadata that has all these brokers in it.

        Metadata lists a broker only while it is registered and unfenced, and that takes an active controller. (With
        ZooKeeper, that controller tells the brokers who has a session there.)
        Raises `BrokerDied`.
        """
        if how := self.ended():
            raise self._died(how)
        try:
            answer = self._link.ask(MetadataRequest[METADATA](topics=[], allow_auto_topic_creation=False), _ANSWER_S)
        except OSError:
            return False
        if answer.controller_id < 0 or not set(brokers) <= {b.node_id for b in answer.brokers}:
            return False
        self._link.close()
        return True

    def told(self) -> str:
        """The lines of its log since its start that tell most, indented, with the path of the log."""
        lines = "\n".join(f"  {line}" for line in telling_lines(read_from(self.log, self._offset)))
        return f"{self.log} says:\n{lines}" if lines else f"{self.log} says nothing"

    def _died(self, how: str) -> BrokerDied:
        return BrokerDied(
            f"broker {self.broker} did not start: it {how}; {self.told()}",
            "Address already in use" in read_from(self.log, self._offset),
        )


def wait_ready(starting: Sequence[Starting], timeout_s: float) -> None:
    """Wait until each of these brokers sees all of them. Raises `ClusterError` with what their logs say."""
    brokers = [s.broker for s in starting]
    missing = list(starting)

    def ready() -> bool:
        # the others are looked at too: one that died is the reason why the first cannot get ready
        missing[:] = [s for s in missing if not s.sees(brokers)]
        return not missing

    began = time.monotonic()
    try:
        wait_until(ready, timeout_s, "not ready", every_s=0.02)
    except WaitTimeout:
        waited = time.monotonic() - began
        raise ClusterError(
            f"broker {', '.join(str(s.broker) for s in missing)} did not get ready in {waited:.0f} s; "
            + "\n".join(s.told() for s in missing)
        ) from None
