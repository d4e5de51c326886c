"""The command `serve`: a free port of the loopback address, and a clean end."""

from __future__ import annotations

import re
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from chaos.wait import wait_until
from tests.chaos.pages.conftest import Folder
from tests.support.platform import chaos, start

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_on_a_free_port_until_a_signal_and_answers_to_its_own_name_only(
    runs: Folder, tmp_path: Path, ending: signal.Signals
) -> None:
    said = tmp_path / "said"
    with said.open("wb") as sink:
        process = start("serve", runs.path, stderr=sink)
    try:
        wait_until(lambda: "http://" in said.read_text() or process.poll() is not None, 120, "it did not start")
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/", said.read_text())
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert "leader-dies-1" in answer.read().decode()
        foreign = urllib.request.Request(address, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(foreign, timeout=60)
    finally:
        process.send_signal(ending)
        code = process.wait(60)
    assert code == 0 and said.read_text().endswith("ended\n") and "Traceback" not in said.read_text()


def test_a_port_that_is_taken_and_a_bad_folder_are_one_line(runs: Folder, tmp_path: Path) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        ended = chaos("serve", runs.path, "--port", s.getsockname()[1])
    assert ended.code == 2 and "choose another with --port" in ended.err and len(ended.err.splitlines()) == 1
    (tmp_path / "file").touch()
    ended = chaos("serve", tmp_path / "file")
    assert ended.code == 2 and "is a file" in ended.err
