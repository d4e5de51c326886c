"""Load of a run: rates from first to last row, CPU time and memory by entry, and what is not known."""

from __future__ import annotations

from pathlib import Path

from chaos.run.result import Counts, Load, ReaderCount
from checks.verdict.decision import measure_load
from tests.support.fake_runs import SECOND, T0, FakeRun, life

COUNTS = Counts(acked=100, readers=[ReaderCount(reader="billing", mode="subscribe", delivered=60, distinct=60)])


def used(client: str, role: str, *, user: int, peak: int, start: int | None = 0, **records: int) -> dict[str, object]:
    began = {} if start is None else {"start_us": start}
    usage = {"user_us": user, "system_us": 100, "peak_rss_bytes": peak, "acked": 0, "delivered": 0}
    return life(client, role, "usage", **usage | began | records)


def measured(run: FakeRun) -> Load:
    run.write()
    return measure_load(run.run, run.resolved, COUNTS)


def test_processes_of_one_entry_are_added_and_the_largest_memory_counts(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    run.ledger["lifecycle"] += [
        used("billing/1", "consumer", user=1000, peak=50, start=300, delivered=40),
        used("billing/1", "consumer", user=500, peak=90, start=200, delivered=20),  # the next incarnation
        used("shop/1", "producer", user=7000, peak=70, start=900, acked=100, delivered=0),
    ]
    shop, billing = measured(run).entries
    assert (shop.entry, shop.kind, shop.processes, shop.records, shop.peak_rss_bytes) == (
        "shop",
        "producer",
        1,
        100,
        70,
    )
    assert (shop.start_cpu_us, shop.cpu_us) == (900, 6200)
    assert (billing.kind, billing.processes, billing.records, billing.peak_rss_bytes) == ("consumer", 2, 60, 90)
    assert (billing.start_cpu_us, billing.cpu_us) == (500, 1200)


def test_a_client_that_never_started_has_all_its_time_after_the_start(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    run.ledger["lifecycle"] += [used("shop/1", "producer", user=900, peak=5, start=None)]
    (shop,) = measured(run).entries
    assert (shop.start_cpu_us, shop.cpu_us) == (0, 1000)


def test_a_ledger_without_measurements_has_no_entries_and_no_rates(tmp_path: Path) -> None:
    assert measured(FakeRun(tmp_path)) == Load()


def test_a_rate_is_over_the_time_from_the_first_to_the_last_row(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    run.ledger["sends"] = [{"producer": "shop/1", "completed_us": T0 + i * SECOND} for i in (0, 3, 5)]
    run.ledger["deliveries"] = [{"consumer": "billing/1", "processed_us": T0}]
    load = measured(run)
    assert load.acked_per_s == 20
    assert load.delivered_per_s is None
