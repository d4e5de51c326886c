"""Under-replicated times from the events of broker logs."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from chaos.errors import UsageError
from chaos.forensics import replicas
from chaos.forensics.model import Findings, UnderReplicated
from chaos.incident.logs.entries import Source
from chaos.incident.logs.events import BelowMinIsr, Event, IsrShrunk, IsrUpdated, UncleanElection
from chaos.kafka.partition import TopicPartition

P = TopicPartition("orders", 0)
SOURCE = Source("server.log", 1, "a line")


def shrunk(at_us: int, before: str, isr: str) -> Event:
    return IsrShrunk(at_us=at_us, node=1, source=SOURCE, partition=P, before=before, isr=isr)


def updated(at_us: int, isr: str) -> Event:
    return IsrUpdated(at_us=at_us, node=1, source=SOURCE, partition=P, isr=isr)


def judged(*events: Event, since_us: int = 0) -> tuple[list[UnderReplicated], Findings]:
    findings = Findings()
    return replicas.judge(events, since_us, findings), findings


def test_a_time_lasts_from_the_shrink_until_as_many_are_in_sync_again() -> None:
    (time,), found = judged(shrunk(1_000_000, "1,2,3", "1,2"), updated(2_000_000, "1"), updated(5_000_000, "1,3,2"))
    assert (time.from_us, time.until_us, time.fewest, time.missing) == (1_000_000, 5_000_000, [1], [2, 3])
    assert found.named[0].words == "only [1] in sync, without [2, 3] for 4.0 s"


def test_a_time_without_an_end_in_the_logs_says_so() -> None:
    (time,), found = judged(shrunk(1_000_000, "1,2,3", "1,2"))
    assert time.until_us is None
    assert found.named[0].words == "only [1, 2] in sync, without [3]; the logs do not show its end"


def test_partitions_with_all_replicas_are_not_named() -> None:
    assert judged(updated(1_000_000, "1,2,3"), updated(2_000_000, "3,2,1")) == ([], Findings())


def test_times_that_ended_before_are_left_out() -> None:
    events = shrunk(1_000_000, "1,2", "1"), updated(2_000_000, "1,2")
    assert judged(*events, since_us=2_000_001)[0] == []
    assert len(judged(*events, since_us=1_500_000)[0]) == 1


def test_refused_writes_and_unclean_elections_are_found() -> None:
    below = [BelowMinIsr(at_us=n, node=1, source=SOURCE, partition=P) for n in (5, 6)]
    unclean = UncleanElection(at_us=7, node=1, source=SOURCE, partition=P, leader=2)
    _, found = judged(*below, unclean)
    assert found.counts == {"refused": 1, "unclean": 1}
    assert found.of("refused")[0].words == "2 lines about refused writes"


def log(folder: Path, *lines: str) -> Path:
    (folder / "server.log").write_text("".join(f"[2026-01-02 03:04:0{n},000] {line}\n" for n, line in enumerate(lines)))
    return folder


STARTED = "INFO [KafkaServer id=1] started (kafka.server.KafkaServer)"
SHRINKS = (
    "INFO [Partition orders-0 broker=1] Shrinking ISR from 1,2 to 1. Leader: (highWatermark: 5, endOffset: 6). Out of "
    "sync replicas: (brokerId: 2, endOffset: 5). (kafka.cluster.Partition)"
)


def test_the_lines_of_a_log_are_read_in_their_zone(tmp_path: Path) -> None:
    events, notes = replicas.read([log(tmp_path, STARTED, SHRINKS)], ZoneInfo("UTC"), lambda _: None)
    (time,), _ = judged(*events)
    assert (time.partition, time.fewest) == ("orders/0", [1])
    assert any("its times have no zone, and are taken for UTC" in note for note in notes)


def test_a_log_without_a_line_about_replicas_is_noted(tmp_path: Path) -> None:
    _, notes = replicas.read([log(tmp_path, STARTED)], ZoneInfo("UTC"), lambda _: None)
    assert any("no line of it names replicas in sync" in note for note in notes)


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=str(tmp_path)):
        replicas.read([tmp_path], ZoneInfo("UTC"), lambda _: None)
