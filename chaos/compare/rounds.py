"""A comparison that goes on: its rounds, each with what it found and what it leaves to the next one; their files.

| file of `rounds/0003`          | holds                                                                          |
|--------------------------------|--------------------------------------------------------------------------------|
| `result.json`                  | what this round found                                                          |
| `reached.json`                 | where the round ended, and what was found until then                           |
| `orders/carried-a-*.parquet`   | records of orders without a match, of A, that the next round looks at again    |
| `orders/seen.npy`              | hashes of the records that the round matched, in their order                   |

A folder has its name when it is complete, so a round that was interrupted is compared again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from chaos.compare.model import KINDS, Comparison, ComparisonResult, Pair, PartitionCounts, TopicResult
from chaos.errors import RunDirError
from chaos.run.directory import Run, read_json, write_atomically
from chaos.run.locked import locked

LOCK = "compare.lock"
FOLDER, REACHED, RESULT, SEEN = "rounds", "reached.json", "result.json", "seen.npy"
REMEMBERED_S = 7 * 86_400.0
"""Time for which matched records are remembered: a later copy in B is duplicated, and not extra."""
NOT_THERE = "its topic is not in A any more, or not chosen"
CHANGED = "it was not compared in the round before, or its partitions or its cleanup policy changed"
NOTES = 20
"""Most notes that the result so far has of a pair."""


class Place(BaseModel):
    """Where a round ended in a pair of topics.

    ends: by side and partition, the first offset that was not read. ids: of the topics. highest: by partition, the
    highest offset of A that was matched. carried: by kind and partition, what the next round looks at again.
    """

    model_config = ConfigDict(extra="forbid")

    pair: Pair
    ends: tuple[list[int], list[int]]
    ids: tuple[str, str]
    highest: list[int]
    carried: dict[str, list[int]]


class Reached(Place):
    """Where a round ended in a pair of topics, and what was found there until then.

    since: the round that read the logs from their start. so_far: what was found in all rounds since then. gone:
    whether the last round did not compare these topics.
    """

    since: int
    so_far: TopicResult
    gone: bool = False


class Round(BaseModel):
    """A complete round. began_us, since_us: begin of this round and of the first one."""

    model_config = ConfigDict(extra="forbid")

    number: int
    began_us: int
    since_us: int
    reached: list[Reached]


class Rounds:
    """The rounds in the folder of a comparison."""

    def __init__(self, run: Run) -> None:
        self._path = run.path / FOLDER

    def of(self, number: int) -> Path:
        """Return the folder of a round."""
        return self._path / f"{number:04}"

    @property
    def numbers(self) -> list[int]:
        """The complete rounds."""
        return sorted(int(path.name) for path in self._path.glob("[0-9]*")) if self._path.is_dir() else []

    @property
    def last(self) -> Round | None:
        """The last complete round. Raises `RunDirError`."""
        numbers = self.numbers
        if not numbers:
            return None
        return Round.model_validate(read_json(self.of(numbers[-1]) / REACHED, "where a round ended"))

    def begin(self) -> Path:
        """Return the empty folder of a round that is not complete."""
        path = self._path / ".next"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def complete(self, path: Path, done: Round, result: ComparisonResult) -> None:
        """Give a round its name, and remove what only it needed."""
        write_atomically(path / RESULT, result.model_dump_json(indent=1))
        write_atomically(path / REACHED, done.model_dump_json(indent=1))
        path.rename(self.of(done.number))
        for carried in self.of(done.number - 1).glob("*/carried-*"):
            carried.unlink()
        for number in self.numbers[:-1]:
            seen = [*self.of(number).glob(f"*/{SEEN}")]
            if seen and done.began_us - seen[0].stat().st_mtime_ns // 1000 > REMEMBERED_S * 1e6:
                for file in seen:
                    file.unlink()

    def result(self, number: int) -> ComparisonResult:
        """Return what a round found. Raises `RunDirError`."""
        return ComparisonResult.model_validate(read_json(self.of(number) / RESULT, "what a round found"))


def so_far(before: Reached | None, now: TopicResult, examples: int) -> TopicResult:
    """Return what was found in all rounds: of a record that was carried, what it is now."""
    if before is None:
        return now
    former = before.so_far
    partitions = [
        _sum(was, one, {kind: counts[one.partition] for kind, counts in before.carried.items()})
        for was, one in zip(former.partitions, now.partitions, strict=True)
    ]
    shifts = [shift for shift in (former.shifts_ms, now.shifts_ms) if shift]
    lasting = [e for e in former.examples if e.kind not in before.carried]
    shown = [e for kind in KINDS for e in [e for e in [*lasting, *now.examples] if e.kind == kind][:examples]]
    return now.model_copy(
        update={
            "partitions": partitions,
            "examples": shown,
            "shifts_ms": (min(s[0] for s in shifts), max(s[1] for s in shifts)) if shifts else None,
            "notes": list(dict.fromkeys([*former.notes, *now.notes]))[-NOTES:],
        }
    )


def _sum(was: PartitionCounts, now: PartitionCounts, carried: Mapping[str, int]) -> PartitionCounts:
    found = {kind: was.found.get(kind, 0) - carried.get(kind, 0) + now.found.get(kind, 0) for kind in KINDS}
    return PartitionCounts(
        partition=now.partition,
        records=(was.records[0] + now.records[0], was.records[1] + now.records[1]),
        matched=was.matched + now.matched,
        found={kind: count for kind, count in found.items() if count},
    )


def reached_in(last: Round | None, pair: Pair) -> Reached | None:
    """Return the state of a pair after the last round; None if it is compared for the first time."""
    states = [state for state in (last.reached if last else []) if (state.pair.a, state.pair.b) == (pair.a, pair.b)]
    return states[0] if states else None


def goes_on(reached: Reached, pair: Pair) -> bool:
    """Return whether a pair can be compared behind where the last round ended."""
    same = reached.pair.compacted == pair.compacted and reached.pair.whole == pair.whole
    fewer = any(now < was for was, now in zip(reached.pair.partitions, pair.partitions, strict=True))
    return same and not fewer and not reached.gone


def gone(last: Round | None, reached: Sequence[Reached]) -> list[Reached]:
    """Return the state of pairs that are not compared any more: what was found there stands."""
    now = {(state.pair.a, state.pair.b) for state in reached}
    former = [state for state in (last.reached if last else []) if (state.pair.a, state.pair.b) not in now]
    found = []
    for state in former:
        notes = [*dict.fromkeys([*state.so_far.notes, NOT_THERE])]
        noted = state.so_far.model_copy(update={"notes": notes})
        found.append(state.model_copy(update={"so_far": noted, "gone": True}))
    return found


def widened(reached: Reached, pair: Pair) -> Reached:
    """Return the state of a pair that has more partitions by now."""
    a, b = pair.partitions

    def wide(values: Sequence[int], size: int, value: int) -> list[int]:
        return [*values, *[value] * (size - len(values))]

    known = len(reached.so_far.partitions)
    more = [PartitionCounts(partition=p) for p in range(known, max(a, b))]
    return reached.model_copy(
        update={
            "pair": pair,
            "ends": (wide(reached.ends[0], a, 0), wide(reached.ends[1], b, 0)),
            "highest": wide(reached.highest, a, -1),
            "carried": {kind: wide(counts, max(a, b), 0) for kind, counts in reached.carried.items()},
            "so_far": reached.so_far.model_copy(update={"partitions": [*reached.so_far.partitions, *more]}),
        }
    )


def held(run: Run) -> AbstractContextManager[None]:
    """Hold the folder of rounds. Raises `UsageError` if another process does."""
    words = f"another process compares into {run.path}; end it first, or name another folder"
    return locked(run.path / LOCK, words)


def check_goes_on(run: Run, asked: Comparison, other: Comparison | None) -> None:
    """Raise `RunDirError` if a folder holds no comparison that can go on with what is asked."""
    if other is None or other.every_s is None:
        raise RunDirError(f"{run.path} is there already, and holds no comparison with --every; name another --into")
    if _question(asked) != _question(other):
        raise RunDirError(f"{run.path} compares other clusters, or with other options; name another --into")


def _question(of: Comparison) -> tuple[object, ...]:
    """Return what rounds have in common; the topics of each may be others."""
    return of.a, of.b, of.timestamps, of.settings
