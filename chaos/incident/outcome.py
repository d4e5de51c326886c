"""What a run showed, and when two runs showed the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from chaos.anomalies import ANOMALIES
from chaos.errors import FAIL, INCONCLUSIVE, PASS, RunDirError, UsageError
from chaos.run.directory import Run, read_json
from chaos.scenario.expect import Expect

CODES = {"pass": PASS, "fail": FAIL}


class Seen(BaseModel):
    """Verdict, sentence, and the anomalies that were found by name (`lost_write`, `duplicate_delivery legal`)."""

    verdict: str
    sentence: str
    anomalies: dict[str, int]

    @classmethod
    def of(cls, run: Run) -> Seen:
        """What a run's `result.json` says. Raises `RunDirError` if there is none, or it is not one."""
        result: Any = read_json(run.result, "result")
        try:
            sums: dict[str, int] = {}
            for row in result["totals"]:
                name = kind_name(row["check"], row["split"])
                sums[name] = sums.get(name, 0) + int(row["count"])
            found = {name: count for name, count in sums.items() if count}
            return cls(verdict=result["verdict"], sentence=result["sentence"], anomalies=found)
        except (KeyError, TypeError, ValueError):
            raise RunDirError(f"{run.result} is not a result of this version; `audit` makes it anew") from None

    @classmethod
    def nothing(cls, why: str) -> Seen:
        """A run without a result."""
        return cls(verdict="inconclusive", sentence=why, anomalies={})

    @property
    def conclusive(self) -> bool:
        """Whether the run could tell."""
        return self.verdict != "inconclusive"

    @property
    def code(self) -> int:
        """The exit code of its verdict."""
        return CODES.get(self.verdict, INCONCLUSIVE)

    def count(self, kind: str) -> int:
        """How often a kind of anomaly was found, all its parts together if it has parts and none is named."""
        return sum(n for name, n in self.anomalies.items() if name == kind or name.split(" ")[0] == kind)

    def words(self) -> str:
        """The anomalies as a person reads them."""
        return ", ".join(f"{name} {count:,}" for name, count in self.anomalies.items()) or "none"


def kind_name(kind: str, split: str) -> str:
    """A kind and its part as one name."""
    return f"{kind} {split}" if split else kind


def known_kind(name: str) -> str:
    """The kind (or kind and part) that somebody names. Raises `UsageError` with those that there are."""
    kind, _, split = name.strip().replace(".", " ").partition(" ")
    if kind not in ANOMALIES or (split and split not in ANOMALIES[kind].splits):
        raise UsageError(f"there is no anomaly {name!r}; known are {', '.join(ANOMALIES)}")
    return kind_name(kind, split)


def left_to_chance(expect: Expect) -> set[str]:
    """The kinds of which a contract allows any number: whether they appear says nothing."""
    return {kind_name(*key) for key, bound in expect.counts().items() if bound.min == 0 and bound.max is None}


def signature(seen: Seen, expect: Expect) -> frozenset[str]:
    """What makes an outcome: the verdict, and the kinds of anomalies but for those that the contract leaves open."""
    return frozenset({f"verdict {seen.verdict}", *(set(seen.anomalies) - left_to_chance(expect))})


def differences(before: Seen, after: Seen, expect: Expect) -> list[str]:
    """In what two outcomes differ, in words; nothing if they are the same."""
    found = [f"the verdict was {before.verdict} and is {after.verdict}"] if before.verdict != after.verdict else []
    free = left_to_chance(expect)
    old, new = set(before.anomalies) - free, set(after.anomalies) - free
    found += [f"{name} is gone ({before.anomalies[name]:,} then)" for name in sorted(old - new)]
    found += [f"{name} is new ({after.anomalies[name]:,})" for name in sorted(new - old)]
    return found


def merged(several: Iterable[Seen]) -> Seen:
    """Several runs of one thing as one: what any of them showed; only those that could tell count, if any could."""
    every = list(several)
    able = [seen for seen in every if seen.conclusive]
    if not able:
        return every[0]
    counts: dict[str, int] = {}
    for seen in able:
        for name, count in seen.anomalies.items():
            counts[name] = max(count, counts.get(name, 0))
    worst = next((s for s in able if s.verdict == "fail"), able[0])
    return Seen(verdict=worst.verdict, sentence=worst.sentence, anomalies=counts)
