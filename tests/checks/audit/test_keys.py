"""Blocks of keys: a topic with many records has several, and the verdicts are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from checks.audit import audit, stage
from checks.audit.engine.blocks import BLOCK_BITS
from checks.audit.engine.keys import MOST_GAPS, hashes_of, numbered
from tests.checks.audit.story import Story, make_run, read_audit, resolved_of

pytestmark = pytest.mark.spark

BLOCKS = 7


def judged(spark: Any, folder: Path, story: Story) -> dict[str, tuple[int, int, int]]:
    run = make_run(folder / "run", [story])
    audit(spark, run, resolved_of([story]))
    return {r["check"]: (r["count"], r["undecided"], r["examined"]) for r in read_audit(run, "summary")}


def many_keys() -> Story:
    """Of 40 keys, the older record was removed; of each tenth, the last one is gone too."""
    story = Story("t").compacted()
    for seq in range(40):
        story.send(seq, seq, key=f"k{seq}")
    for seq in range(40, 80):
        story.send(seq, seq, key=f"k{seq - 40}")
        if seq % 10:
            story.log(seq, seq, key=f"k{seq - 40}")
    return story


@pytest.mark.parametrize("blocks", [1, BLOCKS])
def test_each_block_has_all_records_of_its_keys(
    blocks: int, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "keyed_rows", lambda tally, topic: (blocks - 1) << BLOCK_BITS)
    found = judged(spark, tmp_path, many_keys())
    assert found["lost_key"] == (4, 0, 80)
    assert "lost_write" not in found  # it does not apply


@pytest.mark.parametrize("blocks", [1, BLOCKS])
def test_a_log_record_without_a_key_is_in_every_block(
    blocks: int, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "keyed_rows", lambda tally, topic: (blocks - 1) << BLOCK_BITS)
    story = many_keys()
    story.log(90, None)
    assert judged(spark, tmp_path, story)["lost_key"] == (0, 4, 76)


def test_superseded_records_are_counted(spark: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [many_keys()])
    audit(spark, run, resolved_of([many_keys()]))
    counts = {r["name"]: r["value"] for r in read_audit(run, "counts") if r["scope"] == "t"}
    assert counts["superseded"] == 40


def test_texts_have_one_hash_each_whatever_stands_beside_them():
    texts = ["", "a", "a\0", "é", "k" * 8, "k" * 9, "k" * 4000, *(f"key-{n}" for n in range(20_000))]
    hashes = hashes_of(pa.array(texts))
    assert len(set(hashes.tolist())) == len(texts) and (hashes >= 0).all()
    assert [hashes_of(pa.array([text]))[0] for text in texts[:9]] == hashes[:9].tolist()
    assert hashes_of(pa.array(texts)[3:6]).tolist() == hashes[3:6].tolist(), "of a slice"
    assert hashes_of(pa.array([], pa.string())).tolist() == []
    assert hashes_of(pa.array(texts * 60, pa.string()))[-len(texts) :].tolist() == hashes.tolist(), "in several steps"


@pytest.mark.parametrize(
    ("partitions", "keys", "rows"),
    [(1, 5, 20), (8, 3, 100), (50, 900, 1000), (3, 1, 1), (1, 1, 0)],
    ids=["one partition", "few keys", "more pairs than numbers", "one row", "no row"],
)
def test_pairs_of_partition_and_key_have_one_number_each(partitions, keys, rows):
    rng = np.random.default_rng(2)
    partition = rng.integers(-1, partitions, rows)
    key = rng.integers(0, 2**62, keys)[rng.integers(0, keys, rows)]
    numbers, count = numbered(partition, key)
    pairs = list(zip(partition.tolist(), key.tolist(), strict=True))
    of_pair = set(zip(pairs, numbers.tolist(), strict=True))
    assert len(of_pair) == len(set(pairs)) == len(set(numbers.tolist()))
    assert count <= MOST_GAPS * rows and not (numbers >= count).any()
