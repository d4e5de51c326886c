"""Two servers of the pages read one folder of runs while a real run is written into it."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaos.run.directory import Run
from chaos.run.events import read_events
from chaos.run.result import Result
from chaos.wait import wait_until
from tests.support.platform import SHORTEST, chaos, left_running, start

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(900),
    pytest.mark.nightly(
        twin="chaos/pages/test_app.py::test_two_servers_and_a_writer_share_one_folder_and_lose_nothing"
    ),
]
PAGES = ("", "?page=1", "campaigns.html", "runs/trends.html")


@contextlib.contextmanager
def served(runs_dir: Path, log: Path) -> Iterator[str]:
    """Yield the address of a server of the pages, in a process that ends with the context."""
    with log.open("w") as sink:
        process = start("serve", runs_dir, stderr=sink)
    try:

        def address() -> str:
            assert process.poll() is None, log.read_text()
            found = re.search(r"http://\S+", log.read_text())
            return found[0].rstrip("/") if found else ""

        yield wait_until(address, 120, lambda: f"the pages were not served: {log.read_text()}")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@dataclass
class Reader:
    """Reads all pages of a server, and the live page of a run once its directory is there, until `ended` is set."""

    address: str
    live: str
    ended: threading.Event
    refused: list[tuple[str, int]] = field(default_factory=list)
    seen: list[dict[str, object]] = field(default_factory=list)
    reads: int = 0

    def read(self, path: str) -> bytes:
        """Return a page; note it if it is refused."""
        self.reads += 1
        try:
            with urllib.request.urlopen(f"{self.address}/{path}", timeout=60) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as e:
            self.refused.append((path, e.code))
            return b""

    def run(self, directory: Run) -> None:
        """Read in turn; the pages of the run from its first event on."""
        while not self.ended.is_set():
            for path in PAGES:
                self.read(path)
            if directory.events.exists():
                self.read(f"{self.live}/report.html")
                if body := self.read(f"{self.live}/live.json"):
                    self.seen.append(json.loads(body))
            self.ended.wait(0.2)


def test_two_servers_read_a_folder_while_a_run_is_written_into_it(tmp_path):
    runs, file = tmp_path / "runs", tmp_path / "small.yaml"
    file.write_text(SHORTEST.replace("records: 1000", "records: 6000, rate: 500/s"))
    first = chaos("run", file, "--runs-dir", runs, "--json")
    assert first.code == 0, first.err[-2000:]
    ended = threading.Event()
    with served(runs, tmp_path / "one.log") as one, served(runs, tmp_path / "two.log") as two:
        process = start("run", file, "--runs-dir", runs, "--json")
        try:
            earlier = Path(first.result["run_dir"]).name

            def begun() -> list[Path]:
                assert process.poll() is None
                return [path for path in runs.glob("small-*") if path.name != earlier]

            (path,) = wait_until(begun, 120, "the run did not begin")
            directory = Run(path)
            readers = [Reader(address, f"runs/{path.name}", ended) for address in (one, two)]
            threads = [threading.Thread(target=reader.run, args=(directory,)) for reader in readers]
            for thread in threads:
                thread.start()
            out, err = process.communicate(timeout=400)
        finally:
            ended.set()
            if process.poll() is None:
                process.kill()
                process.wait()
        for thread in threads:
            thread.join()
        result = json.loads(out)
        assert (process.returncode, result["verdict"], result["counts"]["sent"]) == (0, "pass", 6000), err[-2000:]
        for reader in readers:
            assert reader.refused == [] and reader.reads > 50, (reader.refused, reader.reads)
            acked = [point["acked"] for live in reader.seen for point in live["points"][-1:]]
            states = list(dict.fromkeys(live["state"] for live in reader.seen))
            assert acked == sorted(acked) and len(set(acked)) >= 5 and acked[-1] == 6000, acked
            assert len(states) >= 2, states
            assert json.loads(reader.read(f"{reader.live}/live.json"))["verdict"] == "pass"
            page = reader.read("").decode()
            assert "2 recorded runs" in page and earlier in page and path.name in page
            assert b"6,000" in reader.read(f"{reader.live}/report.html") and reader.refused == []
    assert Result.read(directory).verdict == "pass"
    stages = [e["stage"] for e in read_events(directory) if e["kind"] == "stage" and e["state"] == "end"]
    assert {"deploy", "drive", "seal", "readback", "audit", "validate", "report", "destroy"} <= set(stages), stages
    assert left_running(runs) == []
