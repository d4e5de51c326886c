"""Clocks that faults change: what they stamp and what they time, and what a scenario must not ask of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.faults.base import FaultSpec
from chaos.faults.clocks import ClockFaultSpec
from chaos.faults.settings import states_of
from chaos.scenario.expect import Expect
from chaos.setup.model import Setup
from chaos.setup.timestamps import APPEND_TIME, ahead_s

MEMORY_MS = {"producer.id.expiration.ms": 86_400_000, "transactional.id.expiration.ms": 604_800_000}
"""Settings of a broker for how long it remembers producers, with their defaults. Offsets of groups stay for longer."""
OFFSETS_MINUTES = ("offsets.retention.minutes", 10_080)


def clock_faults(faults: Sequence[FaultSpec]) -> list[ClockFaultSpec]:
    """Return the faults that change clocks of nodes or clients."""
    return [fault for fault in faults if isinstance(fault, ClockFaultSpec)]


def wrong_times(setup: Setup, faults: Sequence[FaultSpec]) -> tuple[list[str], list[str]]:
    """Return the topics in which records have wrong times, and what gives them: faults of clocks, and producers."""
    stamped = stamped_topics(setup, faults)
    found: dict[str, set[str]] = {}
    for fault in clock_faults(faults):
        written = {topic for p in setup.producers if p.name == fault.client for topic in p.written}
        written |= {p.to for p in setup.processors if p.name == fault.client}
        found[fault.name] = written if fault.client else set(stamped)
    for producer in setup.producers:
        if ahead_s(producer.timestamps):
            found[f"{producer.name} (timestamps)"] = {topic for topic in producer.written if topic not in stamped}
    return sorted(set[str]().union(*found.values())), [name for name, topics in found.items() if topics]


def stamped_topics(setup: Setup, faults: Sequence[FaultSpec]) -> list[str]:
    """Return the topics with records that a broker stamps at any time (message.timestamp.type=LogAppendTime)."""
    usual = setup.cluster.config.get("log.message.timestamp.type", "")
    return [
        topic.name
        for topic in setup.topics
        if any(str(c.get("message.timestamp.type", usual)).lower() == APPEND_TIME for c, _ in states_of(topic, faults))
    ]


def clock_problems(setup: Setup, faults: Sequence[FaultSpec], expect: Expect, run_s: float) -> Iterator[str]:
    """Yield what no rule can derive: a clock so far ahead that brokers forget producers, or offsets of groups."""
    memory_s = _memory_s(setup)
    for i, fault in enumerate(faults):
        if (
            expect.promised
            and isinstance(fault, ClockFaultSpec)
            and not fault.client
            and fault.furthest_s(run_s)[1] + run_s >= memory_s
        ):
            yield (
                f"faults[{i}]: the clock may be {memory_s:g} s ahead, after which brokers forget producers or offsets, "
                "and no rule says what settings promise then; give expect with bounds, or set the clock forward by less"
            )


def _memory_s(setup: Setup) -> float:
    """Return after how many seconds a broker may forget a producer, or the offsets of a group."""
    config = setup.cluster.config
    try:
        times_ms = [int(config.get(name, usual)) for name, usual in MEMORY_MS.items()]
        times_ms.append(int(config.get(*OFFSETS_MINUTES)) * 60_000)
    except ValueError:  # the broker refuses it
        return 0.0
    return min(times_ms) / 1000
