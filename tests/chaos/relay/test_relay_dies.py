"""Test of a run during which the proxy ends: the verdict is inconclusive, and the message gives the reason."""

import json
import signal

import pytest

from chaos.processes.process import find_marked
from chaos.wait import wait_until
from tests.support.platform import left_running, start

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(900),
    pytest.mark.nightly(twin="chaos/relay/test_brokers.py::test_a_proxy_that_ends_during_the_run_is_reported"),
]


def test_a_run_without_its_proxy_is_inconclusive(tmp_path):
    process = start("run", "gray-leader", "--runs-dir", tmp_path, "--json")

    def proxy_under_load():
        assert process.poll() is None, process.stderr.read()[-2000:]
        acked = [
            event
            for events in tmp_path.glob("*/events.jsonl")
            for event in map(json.loads, events.read_text().splitlines())
            if event["kind"] == "progress" and event["acked"] > 0
        ]
        return acked and [m for m in find_marked() if m.role == "proxy" and tmp_path in m.run_dir.parents]

    (proxy,) = wait_until(proxy_under_load, 300, "no record was ever acknowledged")
    proxy.identity.signal(signal.SIGKILL)
    out, err = process.communicate(timeout=400)
    assert process.returncode == 3, err[-2000:]
    assert json.loads(out)["verdict"] == "inconclusive"
    assert "the wire proxy ended in the middle of the run" in err
    assert "Traceback" not in err
    assert left_running(tmp_path) == []
