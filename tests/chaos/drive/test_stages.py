"""What a run says before it starts anything."""

import re
import shutil
from collections import namedtuple

import pytest

from chaos.drive.stages import _announce_capture, capture_bytes
from chaos.errors import MachineError
from chaos.run.directory import Run, new_run_id
from chaos.run.events import EventLog, read_events
from chaos.scenario.load import parse

GIB = 2**30
HOUR = """
title: One hour
capture: {payloads: %s}
limits: {drive: 2h}
topics: [{name: orders}]
producers: [{name: shop, topic: orders, rate: 1000/s, records: 3600000, %s}]
"""
IDEMPOTENT = "config: {enable.idempotence: true}"
PLAIN = "value_size: 1000, config: {enable.idempotence: false}"


@pytest.mark.parametrize(
    ("payloads", "producer", "least", "most"),
    [
        ("needed", IDEMPOTENT, 0.5, 2),
        ("none", PLAIN, 0.5, 2),
        ("needed", PLAIN, 3, 5),
        ("all", f"value_size: 1000, {IDEMPOTENT}", 3, 5),
        ("all", "value: {template: '{id} {filler}', sizes: {uniform: [10, 2000]}}", 7, 8),
    ],
)
def test_a_capture_of_one_hour_at_1000_records_a_second(payloads, producer, least, most):
    """Only what is kept of records takes more than 2 GB."""
    assert least < capture_bytes(parse(HOUR % (payloads, producer), "test")) / GIB < most


def test_the_room_that_a_capture_takes_is_said_before_the_run_and_a_full_disk_is_named(tmp_path, monkeypatch):
    run, large = Run.create(tmp_path, "r1"), parse(HOUR % ("needed", IDEMPOTENT), "test")
    _announce_capture(run, parse((HOUR % ("needed", IDEMPOTENT)).replace("3600000", "1000"), "test"), EventLog(run))
    assert read_events(run) == []
    _announce_capture(run, large, EventLog(run))
    (event,) = read_events(run)
    assert event["words"] == "the capture of the wire may take 0.7 GiB (capture.payloads: needed)"
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2**20))
    with pytest.raises(MachineError, match=r"may take 0\.7 GiB, and 0\.0 are free at .*; make room"):
        _announce_capture(run, large, EventLog(run))


@pytest.mark.parametrize(
    ("file", "begin"),
    [
        ("leader-kill", "leader-kill-2"),
        ("my own", "my_own-2"),
        ("bestellung-für-übermorgen", "bestellung-f_r-_bermorgen-2"),
        ("_hidden.v2", "hidden.v2-2"),
        ("订单", "run-2"),
        ("long" * 60, f"{'long' * 37}lo-2"),
    ],
)
def test_a_run_of_a_file_with_any_name_has_one_that_containers_and_dags_take(file, begin):
    assert new_run_id(file).startswith(begin)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", new_run_id(file))  # RUN_ID of dags/provider/forms.py
