"""The decision of a gate, from the runs that were kept and the cells that they are held against; nothing is run here.

fail: a run that broke its contract, or a time that is shown to be beyond its margin.
inconclusive: more runs of a cell that could not tell than are allowed, runs that are missing, a share of failures that
the passes do not exclude, times that were measured too rarely to show anything.
pass: everything else; what it is worth stands beside it.
"""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from chaos.gate import ranks
from chaos.gate.baseline import Pair, notes
from chaos.gate.matrix import Planned
from chaos.gate.model import Gate, Times
from chaos.history.trends import RESOLUTION_US, SAMPLED_US
from chaos.incident.again import interval
from chaos.run.events import now_us
from chaos.run.gate_result import MARKS, Cell, CellRun, GateResult, Machine, Mark, TimeComparison
from chaos.run.result import WORST_FIRST, Verdict, merge

Named = tuple[str, str, str, str]
"""Metric, scope, fault and statistic of a time."""


@dataclass(frozen=True)
class Judged:
    """A gate, what was planned, and what there is to hold it against."""

    gate: Gate
    name: str
    command: str
    seed: int
    cells: Sequence[Planned]
    pairs: Sequence[Pair]
    stored: GateResult | None = None

    def result(self, runs: Mapping[int, Sequence[CellRun]]) -> GateResult:
        """The result, from the runs of each cell by its number; some or all of them may be missing."""
        plain = [self._cell(cell, list(runs.get(cell.number, []))) for cell in self.cells]
        comparisons = _judged_times(self.gate.time, list(self._measured(plain)))
        cells = [self._with_times(cell, [c for c in comparisons if c.cell == cell.number]) for cell in plain]
        verdict = merge(cell.verdict for cell in cells)
        machine = Machine(platform=platform.platform(), cpus=os.cpu_count() or 1)
        found = GateResult(
            gate=self.name,
            title=self.gate.title,
            verdict=verdict,
            sentence="",
            command=self.command,
            machine=machine,
            made_us=now_us(),
            seed=self.seed,
            repeat=self.gate.repeat,
            margin=self.gate.time.margin,
            confidence=self.gate.time.confidence,
            compared_with=" and ".join(dict.fromkeys(pair.words for pair in self.pairs)),
            cells=cells,
            comparisons=comparisons,
            notes=[*(notes(self.stored, machine) if self.stored else []), *_too_few(comparisons, self.gate)],
        )
        return found.model_copy(update={"sentence": sentence(found)})

    @cached_property
    def _timed(self) -> list[Pair]:
        """The pairs whose times are judged."""
        judged = {cell.number for cell in self.cells if self.gate.time.judges(cell.key.scenario)}
        return [pair for pair in self.pairs if pair.number in judged]

    def _cell(self, planned: Planned, runs: list[CellRun]) -> Cell:
        told = [run for run in runs if run.conclusive]
        failed = sum(run.verdict == "fail" for run in told)
        low, high = interval(failed, len(told))
        verdict, words = _integrity(self.gate, runs, high)
        references = {pair.other for pair in self.pairs if not pair.stored}
        return Cell(
            number=planned.number,
            key=planned.key,
            setup=planned.setup,
            verdict=verdict,
            sentence=words,
            runs=runs,
            failed=failed,
            told=len(told),
            low=low,
            high=high,
            reference=planned.number in references,
        )

    def _with_times(self, cell: Cell, comparisons: list[TimeComparison]) -> Cell:
        """The cell with what its times say in its verdict and its sentence."""
        by_mark = {mark: [c for c in comparisons if c.mark == mark] for mark in MARKS}
        verdict: Verdict = "pass"
        words = ""
        if slower := by_mark["slower"]:
            verdict = "fail"
            words = f" Slower: {slower[0].label}, {slower[0].words}{_more(slower)}."
        elif unknown := [
            *by_mark["too few"],
            *(by_mark["undecided"] if self.gate.time.undecided == "inconclusive" else []),
        ]:
            verdict = "inconclusive"
            words = f" Not known: {unknown[0].label}, {unknown[0].words}{_more(unknown)}."
        elif comparisons and not by_mark["within"]:
            verdict = "inconclusive"
            words = f" Not known: of {len(comparisons)} times none is shown to be within its margin, nor beyond it."
        elif not comparisons and (pair := next((p for p in self._timed if p.number == cell.number), None)):
            verdict = "inconclusive"
            words = f" Not known: no time was measured in {pair.words} that this could be held against."
        worst = merge([cell.verdict, verdict])
        return cell.model_copy(update={"verdict": worst, "sentence": cell.sentence + words})

    def _measured(self, cells: Sequence[Cell]) -> list[_Measured]:
        by_number = {cell.number: cell for cell in cells}
        found: list[_Measured] = []
        for pair in self._timed:
            now = by_number[pair.number]
            then = self.stored.cell(pair.other) if pair.stored and self.stored else by_number[pair.other]
            found += _side_by_side(now, then, pair.words, self.gate.time)
        return found


def _integrity(gate: Gate, runs: list[CellRun], high: float) -> tuple[Verdict, str]:
    """What the runs of a cell say of its records."""
    failed = [run for run in runs if run.verdict == "fail"]
    unsure = [run for run in runs if not run.conclusive]
    told = len(runs) - len(unsure)
    known = f"{len(failed)} of {told} runs broke the contract"
    if failed:
        return "fail", f"{known}: {failed[0].sentence}"
    if told == 0:
        return "inconclusive", f"No run could tell. {runs[0].sentence}" if runs else "It was not run."
    known += f", so fewer than {100 * high:.1f} % do, at 95 %"
    if (missing := gate.repeat - len(runs)) > 0:
        return "inconclusive", f"{missing} of {gate.repeat} runs are missing; {known}."
    if len(unsure) > gate.integrity.inconclusive:
        return "inconclusive", f"{len(unsure)} of {len(runs)} runs could not tell: {unsure[0].sentence} {known}."
    if gate.integrity.below is not None and high > gate.integrity.below:
        return "inconclusive", f"Too few runs could tell: {known}, and {100 * gate.integrity.below:g} % was asked for."
    unable = f" ({len(unsure)} could not tell)" if unsure else ""
    return "pass", f"{known}{unable}."


@dataclass(frozen=True)
class _Measured:
    """One time of a cell and of what it is held against. told: how many runs of the cell could tell."""

    cell: int
    against: str
    named: Named
    now: list[int]
    then: list[int]
    told: int
    slower_p: float = 1.0
    within_p: float = 1.0


def _side_by_side(now: Cell, then: Cell, against: str, times: Times) -> list[_Measured]:
    """Every time that is judged and that the other cell had in at least half of its runs.

    What happens now and then only (a rebalance by chance) is not a time that could have become another one.
    """
    mine, other = _values(now, times), _values(then, times)
    return [
        _Measured(now.number, against, named, mine.get(named, []), values, now.told)
        for named, values in other.items()
        if len(values) * 2 >= then.told
    ]


def _values(cell: Cell, times: Times) -> dict[Named, list[int]]:
    found: dict[Named, list[int]] = {}
    for run in cell.runs:
        for time in run.times if run.conclusive else []:
            if time.metric in times.only:
                found.setdefault(time.key, []).append(time.value_us)
    return found


def _judged_times(times: Times, measured: list[_Measured]) -> list[TimeComparison]:
    """Test every time, and say of each what is shown."""
    alpha = 1 - times.confidence
    tested = [_tested(one, times) for one in measured]
    slower = ranks.holm([one.slower_p for one in tested], alpha)
    return [_comparison(one, times, beyond, alpha, len(tested)) for one, beyond in zip(tested, slower, strict=True)]


def _tested(one: _Measured, times: Times) -> _Measured:
    if not one.now or not one.then:
        return one
    metric = one.named[0]
    slower, within = ranks.beyond(one.now, one.then, times.margin_of(metric), RESOLUTION_US.get(metric, SAMPLED_US))
    return replace(one, slower_p=slower, within_p=within)


def _comparison(one: _Measured, times: Times, slower: bool, alpha: float, tests: int) -> TimeComparison:
    metric, scope, fault, stat = one.named
    margin = times.margin_of(metric)
    # a recovery that never came has no time: those that are left must not speak for it
    enough = ranks.smallest(len(one.now), len(one.then)) <= alpha / tests and len(one.now) * 2 >= one.told
    mark: Mark = "slower" if slower else "too few" if not enough else "within" if one.within_p <= alpha else "undecided"
    median, was = (statistics.median(values) if values else None for values in (one.now, one.then))
    words = f"{median / was:.2f} times {one.against}" if median is not None and was else f"beside {one.against}"
    if mark == "too few":
        words += f": measured in {len(one.now)} of {one.told} runs, and {len(one.then)} times there"
    else:
        words += f": {MARKS[mark]} of {margin:g}"
    return TimeComparison(
        cell=one.cell,
        against=one.against,
        metric=metric,
        scope=scope,
        fault=fault,
        stat=stat,
        margin=margin,
        now=len(one.now),
        then=len(one.then),
        median_us=median,
        was_us=was,
        slower_p=one.slower_p if one.now and one.then else None,
        within_p=one.within_p if one.now and one.then else None,
        mark=mark,
        words=words,
    )


def _more(some: Sequence[object]) -> str:
    return f" (and {len(some) - 1} more)" if len(some) > 1 else ""


def fewest(gate: Gate, pairs: Sequence[Pair]) -> str:
    """What is known beforehand of how many repeats it takes; empty if it may be enough."""
    needed = ranks.needed(1 - gate.time.confidence, len(pairs)) if pairs else 0
    if gate.repeat >= needed:
        return ""
    return f"repeat is {gate.repeat}: too few to show of any time that it is slower, which takes {needed} at least"


def _too_few(comparisons: list[TimeComparison], gate: Gate) -> list[str]:
    few = [c for c in comparisons if c.mark == "too few"]
    if not few:
        return []
    needed = ranks.needed(1 - gate.time.confidence, len(comparisons))
    return [
        f"Too few repeats: {len(few)} of {len(comparisons)} times were measured too rarely to show anything. With so "
        f"many times it takes {needed} values on each side, and repeat is {gate.repeat}."
    ]


def sentence(found: GateResult) -> str:
    """What a person reads first."""
    by_verdict = {v: [cell for cell in found.cells if cell.verdict == v] for v in WORST_FIRST}
    runs, told = sum(len(cell.runs) for cell in found.cells), sum(cell.told for cell in found.cells)
    words = [f"{_count(by_verdict['pass'], len(found.cells))} passed, in {runs} runs."]
    said_of: dict[Verdict, str] = {"fail": "failed", "inconclusive": "could not tell"}
    for verdict, said in said_of.items():
        if some := by_verdict[verdict]:
            words.append(f"{len(some)} {said}: {'; '.join(cell.key.name for cell in some[:3])}{_more_of(some[3:])}.")
    broken = sum(cell.failed for cell in found.cells)
    words.append(f"Integrity: {broken} of {told} runs broke the contract.")
    return " ".join([*words, _of_times(found)])


def _of_times(found: GateResult) -> str:
    if not found.compared_with:
        return "Times were not judged: there was nothing to hold them against."
    marks = [c.mark for c in found.comparisons]
    known = [f"{marks.count(mark)} {_SHORT[mark]}" for mark in _SHORT if mark in marks]
    return f"Times beside {found.compared_with}: {', '.join(known) or 'none was measured'}."


_SHORT: dict[Mark, str] = {"slower": "slower", "within": "within the margin", "undecided": "open", "too few": "too few"}


def _count(some: Sequence[object], of: int) -> str:
    return f"{len(some)} of {of} cells"


def _more_of(some: Sequence[object]) -> str:
    return f" and {len(some)} more" if some else ""
