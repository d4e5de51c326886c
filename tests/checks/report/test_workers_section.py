"""The section about workers: clients, clocks and lost workers, and the worker of a client in the list of events."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from checks.report.html import render
from checks.report.storyline import storyline
from checks.report.tables import read_tables
from checks.report.timeline import draw
from checks.report.workers import list_workers, places
from tests.checks.report import synthetic
from tests.checks.report.story import Story


def rows() -> list[dict[str, Any]]:
    return [row | {"value": json.loads(row["value"])} for row in Story().workers()]


def test_each_worker_has_its_clients_the_range_of_its_clock_and_why_it_is_lost() -> None:
    first, second, third = list_workers(reversed(rows()), {"worker-3": "it is gone"})
    assert (first.host, first.beside, first.clients) == ("kafka-lab-1", True, ["billing/3", "shop/1"])
    assert (first.offset, first.uncertainty) == ("\N{MINUS SIGN}41 µs to +12 µs", "± 62 µs")
    assert (second.offset, second.uncertainty, second.lost) == ("+18.2 ms to +18.4 ms", "± 212 µs", "")
    assert (third.offset, third.uncertainty, third.lost) == ("", "", "it is gone")


def test_a_worker_that_only_the_seal_knows_is_shown_and_order_is_by_number() -> None:
    (only,) = list_workers([], {"worker-12": "it never connected"})
    assert (only.name, only.clients, only.beside) == ("worker-12", [], None)
    many = list_workers([], {f"worker-{n}": "" for n in (10, 2, 1)})
    assert [worker.name for worker in many] == ["worker-1", "worker-2", "worker-10"]


def section(page: str) -> str:
    found = re.search(r'<section id="workers".*?</section>', page, re.S)
    return re.sub(r"<[^>]+>|\s+", " ", found[0]) if found else ""


def test_the_section_names_the_lost_worker_and_says_which_clocks_differ(tmp_path: Path) -> None:
    page = render(*synthetic.cut_short_run(tmp_path))
    text = " ".join(section(page).split())
    assert "The ledger has no rows of worker-3 : worker-3 (process 4711 on kafka-lab-3) is gone" in text
    assert "process 4711, beside the drive" in text and "process 4711, on another machine" in text
    assert "never compared" in text and "+18.2 ms to +18.4 ms ± 212 µs 2" in text
    assert "except those of clients on" in page
    calm = render(*synthetic.passed_run(tmp_path))
    assert section(calm) == "" and "except those of clients" not in calm and "#workers" not in calm


def test_events_of_clients_name_their_worker(tmp_path: Path) -> None:
    run, result, resolved = synthetic.failed_run(tmp_path)
    tables = read_tables(run)
    picture = draw(tables, result, resolved, [])
    subjects = {m.subject for m in storyline(tables, picture, places(list_workers(rows(), {})))[0]}
    assert "billing/2 on worker-3" in subjects
    assert "billing/2" in {m.subject for m in storyline(tables, picture)[0]}
