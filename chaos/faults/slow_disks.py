"""The fault of a slow disk. The node itself reports the times that prove it, and that it has ended."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial

from chaos.cluster.api import able
from chaos.cluster.disks import SlowDisk
from chaos.cluster.endpoints import FIRST_CONTROLLER
from chaos.errors import FaultError, WaitTimeout
from chaos.faults import targets
from chaos.faults.base import World
from chaos.faults.targets import BrokerFault, node_name
from chaos.kafka.probe import create_probe, probe, remove_probe
from chaos.preload.disk import FAST, Delayed, Delays
from chaos.preload.meter import Meter, Reading
from chaos.scenario.faults import resources as specs
from chaos.units import format_duration
from chaos.wait import wait_until

LEAST_SHARE, ENDED_SHARE = 0.8, 0.5
"""Share of a delay by which the times of a node must have risen, as proof, and above which the delay has not ended."""
LEAST_MEASURED, SERIES = 3, 3
"""Minimum number of measurements for a mean, and number of means before the fault, of which the least counts."""
NORMAL_TIMEOUT_S, FRESH_TIMEOUT_S, ENDED_TIMEOUT_S = 20.0, 5.0, 30.0
ANSWER_S = 5.0
"""Time for the answer to a request that writes, in addition to the delays of the disk."""
FLUSHED_FILES = 4
"""Maximum number of files in a flush: a segment of a log and its indexes."""


@dataclass(frozen=True)
class Start:
    """What a node had measured, and what of its writes was delayed, directly before the injection."""

    reading: Reading
    delayed: Delayed


class DiskSlow(BrokerFault[specs.DiskSlow], spec=specs.DiskSlow):
    """Writes and flushes that take longer. Proof: the times that the node itself reports since the injection.

    Its metrics are the times for Produce requests (LocalTimeMs), spent on the append, and for flushes of segments
    (LogFlushRateAndTimeMs). Their means have to exceed those before the fault by most of the delays. So that there is
    something to measure, the fault writes single records to a topic with its only replica at the broker. A dedicated
    controller flushes its log anyway. The heal waits until the times have fallen.
    """

    _normal: dict[int, Reading]
    """What each node measured before the fault."""
    _start: dict[int, Start]
    _refusal: str | None = None
    """The last answer to a write of the fault; None if that is written."""
    _after = ""
    """The times of the nodes after the heal, once they have fallen."""

    @property
    def _delays(self) -> Delays:
        return Delays(self.spec.write or 0.0, self.spec.fsync or 0.0)

    def _inject(self, world: World) -> str:
        disks = able(world.cluster, SlowDisk)
        if slow := [node_name(node, world) for node in self.brokers if disks.disk_delays(node) != FAST]:
            raise FaultError(
                f"another fault has slowed the disk of {', '.join(slow)}; let this one begin after its heal"
            )
        self._normal = {node: self._measure_before(node, world) for node in self.brokers}
        self._start = {node: Start(_answered(node, world), disks.delayed_writes(node)) for node in self.brokers}
        self.begun = True
        for node in self.brokers:
            disks.slow_disk(node, self._delays)
        delays = [f"each {key} takes {format_duration(value)} more" for key, value in self._given()]
        before = "; ".join(f"{node_name(node, world)} took {_shown(self._normal[node])}" for node in self.brokers)
        return f"slowed the disk of {self.resolved}: {', '.join(delays)} (before: {before})"

    def _given(self) -> list[tuple[str, float]]:
        return [(key, value) for key, value in (("write", self.spec.write), ("fsync", self.spec.fsync)) if value]

    def _measure_before(self, node: int, world: World) -> Reading:
        """Return the times of a node before the fault. Raises `FaultError` if it reports none."""
        silent = f"{node_name(node, world)} reports no times of requests and flushes, so its disk cannot be observed"

        def why() -> str:
            return f"{silent}; it answers a write with: {self._refusal}" if self._refusal else silent

        if _takes_records(node):
            create_probe(world.kafka, _topic(node), node)
        found = []
        for _ in range(SERIES if _takes_records(node) else 1):  # the first requests to a new topic take longer
            first = _answered(node, world)
            found.append(targets.answer(partial(self._measure, node, first, world), why, NORMAL_TIMEOUT_S))
        return min(found, key=lambda reading: sum(meter.mean_s for meter, _ in self._meters(node, reading)))

    def _measure(self, node: int, since: Reading, world: World) -> Reading | None:
        """Let a node write, and return what it has measured since a reading; None if that is too little for a mean."""
        if _takes_records(node):
            delays = self._delays
            timeout_s = ANSWER_S + delays.write_s + FLUSHED_FILES * delays.sync_s
            self._refusal = probe(world.kafka, _topic(node), node, timeout_s)
        reading = _fresh(node, world)
        if reading is None:
            return None
        measured = reading.since(since)
        return measured if all(meter.count >= LEAST_MEASURED for meter, _ in self._meters(node, measured)) else None

    def _meters(self, node: int, reading: Reading) -> list[tuple[Meter, float]]:
        """Return each meter of a node that a delay raises, with this delay in seconds."""
        found = [(reading.flush, self.spec.fsync or 0.0)]
        if _takes_records(node):
            found.append((reading.produce, self.spec.write or 0.0))
        return [(meter, delay_s) for meter, delay_s in found if delay_s]

    def _risen(self, node: int, measured: Reading) -> list[float]:
        """Return by which share of each delay the times of a node exceed those before the fault."""
        both = zip(self._meters(node, self._normal[node]), self._meters(node, measured), strict=True)
        return [(now.mean_s - before.mean_s) / delay_s for (before, _), (now, delay_s) in both]

    def _effect(self, world: World) -> str | None:
        """Let each node write, and compare its times since the injection with those before it."""
        texts = []
        for node in self.brokers:
            start = self._start[node]
            measured = self._measure(node, start.reading, world)
            now = able(world.cluster, SlowDisk).delayed_writes(node)
            writes, syncs = now.writes - start.delayed.writes, now.syncs - start.delayed.syncs
            if measured is None or (self.spec.write and not writes) or (self.spec.fsync and not syncs):
                return None
            if min(self._risen(node, measured)) < LEAST_SHARE:
                return None
            texts.append(f"{node_name(node, world)} took {_shown(measured)} ({writes} writes, {syncs} fsyncs delayed)")
        return f"by their own metrics, {'; '.join(texts)}"

    def _undo(self, world: World) -> str:
        for node in self.brokers:
            able(world.cluster, SlowDisk).slow_disk(node, FAST)
        if not self._after:
            self._after = "; ".join(self._ended(node, world) for node in self.brokers)
            for node in filter(_takes_records, self.brokers):
                remove_probe(world.kafka, _topic(node))
        return f"the disk of {self.resolved} is as fast as before: {self._after}"

    def _ended(self, node: int, world: World) -> str:
        """Wait until the times of a node have fallen, and describe them. Raises `FaultError` if they stay."""
        name, last = node_name(node, world), Reading(0, 0)

        def fast() -> bool:
            nonlocal last
            since = _fresh(node, world)
            if since is None:
                return not world.cluster.broker_alive(node)
            with contextlib.suppress(WaitTimeout):
                last = wait_until(lambda: self._measure(node, since, world), FRESH_TIMEOUT_S, "", every_s=0.05) or last
                return max(self._risen(node, last)) < ENDED_SHARE
            return False

        try:
            wait_until(fast, ENDED_TIMEOUT_S, "", every_s=0.1)
        except WaitTimeout:
            if last.process:
                raise FaultError(
                    f"the disk of {name} is not slowed any more, but it still took {_shown(last)}"
                ) from None
        return f"{name} took {_shown(last)}" if last.process else f"{name} reports no times now"


def _topic(node: int) -> str:
    """Return the name of the topic to which the fault lets a broker write."""
    return f"aftershock-disk-{node}"


def _takes_records(node: int) -> bool:
    """Return whether a node is a broker, and no dedicated controller."""
    return node < FIRST_CONTROLLER


def _fresh(node: int, world: World) -> Reading | None:
    """Return times that a node has read after this call; None if it reports none, such as one that is down."""
    disks = able(world.cluster, SlowDisk)
    before = disks.meter(node)

    def later() -> Reading | None:
        now = disks.meter(node)  # the next one may have been read before this call, in part
        started = before is None or now is None or now.process != before.process
        return now if started or (now and before and now.number >= before.number + 2) else None

    try:
        return wait_until(later, FRESH_TIMEOUT_S, "", every_s=0.05)
    except WaitTimeout:
        return None


def _answered(node: int, world: World) -> Reading:
    """Return the times of a node before the fault. Raises `FaultError` if it reports none."""
    reading = _fresh(node, world)
    if reading is None:
        raise FaultError(f"{node_name(node, world)} reports no times of its requests, so its disk cannot be observed")
    return reading


def _shown(reading: Reading) -> str:
    """Return the mean times of a reading."""
    meters = (("request to write", reading.produce), ("flush", reading.flush))
    parts = [f"{1000 * m.mean_s:.1f} ms for a {name} (mean of {m.count})" for name, m in meters if m.count]
    return " and ".join(parts) or "no time"
