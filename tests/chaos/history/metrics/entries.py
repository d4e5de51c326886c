"""Entries of the history for tests of the metrics."""

from dataclasses import replace

from chaos.history.entries import Entry, Time

ENTRY = Entry(
    key="k", digest="d", run_id="leader-kill-20261121-040000-1a2b", scenario="leader-kill", variant="", setup="s",
    title="T", verdict="pass", sentence="All records are there.", seen="none", seed=7, kafka="4.3.1", client="2.16.1",
    began_us=1_795_292_672_681_705, ended_us=1_795_292_718_864_840, run_dir="/runs/r-1", command="c",
    times=(
        Time(metric="produce_unavailability", scope="orders", fault="kill", stat="max", value_us=11_700_000),
        Time(metric="ack_latency", scope="orders", fault="", stat="p99", value_us=12_345),
        Time(metric="ack_latency", scope="orders", fault="", stat="max", value_us=99_999),
    ),
)  # fmt: skip


def later(entry, seconds, **changes):
    """Return a run of another key that began and ended later."""
    by_us = seconds * 1_000_000
    moved = replace(entry, key=f"k{seconds}", began_us=entry.began_us + by_us, ended_us=entry.ended_us + by_us)
    return replace(moved, **changes)
