"""What earlier rounds of a comparison leave to the next one, by pair of topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from chaos.compare.model import Pair
from chaos.compare.rounds import SEEN, Reached, Rounds
from checks.compare import buckets, match
from checks.compare.match import COLUMNS, Ints, bucket_of, identity


@dataclass(frozen=True)
class Earlier:
    """What a round begins with, and where it writes what it leaves.

    begins: by side and partition, the first offset to read. ids: of the topics; empty if unknown. highest: by
    partition, the highest offset of A that was matched. carried: files of records without a match, of A and of B. seen:
    files of hashes of records that were matched. into: the folder of what this round leaves.
    """

    begins: tuple[Ints, Ints]
    ids: tuple[str, str]
    highest: Ints
    carried: tuple[Sequence[Path], Sequence[Path]]
    seen: Sequence[Path]
    into: Path

    @classmethod
    def none(cls, pair: Pair, into: Path) -> Earlier:
        """Return what the first round begins with."""
        a, b = pair.partitions
        begins = np.zeros(a, np.int64), np.zeros(b, np.int64)
        return cls(begins, ("", ""), np.full(a, -1, np.int64), ([], []), [], into)

    @classmethod
    def of(cls, rounds: Rounds, reached: Reached, into: Path) -> Earlier:
        """Return what a round begins with after others."""
        numbers = [number for number in rounds.numbers if number >= reached.since]
        seen = [rounds.of(number) / reached.pair.a / SEEN for number in numbers]
        last = rounds.of(numbers[-1]) / reached.pair.a
        begins = np.array(reached.ends[0], np.int64), np.array(reached.ends[1], np.int64)
        carried = sorted(last.glob("carried-a-*")), sorted(last.glob("carried-b-*"))
        return cls(
            begins, reached.ids, np.array(reached.highest, np.int64), carried, [p for p in seen if p.exists()], into
        )

    @property
    def rows(self) -> int:
        """The number of records that are looked at again."""
        return sum(int(pq.read_metadata(path).num_rows) for paths in self.carried for path in paths)

    def carry(self, side: int, number: int) -> Path:
        """Return the file of records of a side that the next round looks at again."""
        return self.into / f"carried-{'ab'[side]}-{number:05}.parquet"

    def remember(self, folder: Path) -> None:
        """Keep the hashes of records that this round matched, which its first pass wrote to `folder`, by bucket."""
        parts = [np.load(path, mmap_mode="r") for path in sorted(folder.glob(f"{match.SEEN}-*.npy"))]
        if not (count := sum(len(part) for part in parts)):
            return
        whole = np.lib.format.open_memmap(self.into / SEEN, "w+", np.uint64, (count,))
        at = 0
        for part in parts:  # buckets are in the order of the hashes
            whole[at : at + len(part)] = part
            at += len(part)
        whole.flush()


@dataclass(frozen=True)
class Rebucket:
    """A file of records without a match, to be brought into buckets. by: the identity of this round's buckets."""

    path: Path
    into: Path
    by: str
    buckets: int


def rebucket(task: Rebucket) -> None:
    """Write the records of an earlier round into buckets of this one."""
    rows = buckets.read([task.path], None, COLUMNS)
    place = bucket_of(identity(rows, match.IDENTITIES[task.by]), task.buckets)
    buckets.write(rows, place, task.buckets, task.into)
