"""The decision of a gate, from its stored runs and the cells that they are compared with.

- fail: a run broke its contract, or a time is shown to be beyond its margin.
- inconclusive: more inconclusive runs of a cell than allowed, missing runs, too few passes to exclude the demanded
  share of failures, or too few values of a time to show anything.
- pass: everything else. The sentence states how strong the evidence is.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from chaos.campaign.gate.matrix import Pair, PlannedCell, warnings
from chaos.campaign.gate.model import Gate, Times
from chaos.campaign.score import tally, this_machine
from chaos.history.trends import RESOLUTION_US, SAMPLED_US
from chaos.run import ranks
from chaos.run.campaign import MARKS, Cell, GateResult, LeftOut, Mark, TimeComparison, TrialRun
from chaos.run.events import now_us
from chaos.run.result import WORST_FIRST, Verdict, merge

TimeKey = tuple[str, str, str, str]
"""Metric, scope, fault and statistic of a time."""
_SHORT: dict[Mark, str] = {"slower": "slower", "within": "within the margin", "undecided": "open", "too few": "too few"}


@dataclass(frozen=True)
class GateJudge:
    """The judge of one gate. stored: the baseline, if there is one; command: the command line that runs it again."""

    gate: Gate
    name: str
    command: str
    seed: int
    cells: Sequence[PlannedCell]
    pairs: Sequence[Pair]
    stored: GateResult | None = None
    left_out: Sequence[LeftOut] = ()

    @property
    def warning(self) -> str:
        """A warning if the gate repeats too rarely to show any time as slower, else empty."""
        needed = ranks.needed(1 - self.gate.time.confidence, len(self.pairs)) if self.pairs else 0
        repeat = self.gate.repeat
        text = f"repeat is {repeat}: too few to show of any time that it is slower, which takes {needed} at least"
        return text if repeat < needed else ""

    def result(self, runs: Mapping[int, Sequence[TrialRun]]) -> GateResult:
        """Judge the runs of each cell by its number; runs may be missing."""
        without_times = [self._cell(cell, list(runs.get(cell.number, []))) for cell in self.cells]
        comparisons = self._comparisons({cell.number: cell for cell in without_times})
        cells = [self._with_times(cell, [c for c in comparisons if c.cell == cell.number]) for cell in without_times]
        machine = this_machine()
        result = GateResult(
            gate=self.name,
            title=self.gate.title,
            verdict=merge([*(cell.verdict for cell in cells), "inconclusive" if self._never_run else "pass"]),
            sentence="",
            command=self.command,
            machine=machine,
            made_us=now_us(),
            seed=self.seed,
            repeat=self.gate.repeat,
            margin=self.gate.time.margin,
            confidence=self.gate.time.confidence,
            compared_with=" and ".join(dict.fromkeys(pair.name for pair in self.pairs)),
            cells=cells,
            left_out=list(self.left_out),
            comparisons=comparisons,
            notes=[
                *self._notes_of_left_out(),
                *(warnings(self.stored, machine) if self.stored else []),
                *_too_few(comparisons, self.gate),
            ],
        )
        return result.model_copy(update={"sentence": sentence(result)})

    @cached_property
    def _timed(self) -> list[Pair]:
        """The pairs with judged times."""
        judged = {cell.number for cell in self.cells if self.gate.time.judges(cell.key.scenario)}
        return [pair for pair in self.pairs if pair.number in judged]

    @cached_property
    def _never_run(self) -> list[str]:
        """The client libraries without a cell that can run: the gate knows nothing of them."""
        ran = {cell.key.client for cell in self.cells}
        return [client for client in dict.fromkeys(out.key.client for out in self.left_out) if client not in ran]

    def _notes_of_left_out(self) -> list[str]:
        notes = [f"{client} was not judged: no cell of it can run." for client in self._never_run]
        return notes + [f"Left out: {out.key.name}: {out.reason}" for out in self.left_out]

    def _cell(self, planned: PlannedCell, runs: list[TrialRun]) -> Cell:
        part = tally(planned.key.name, sorted(runs, key=lambda run: run.n))
        verdict, text = _integrity(self.gate, part.runs, part.high)
        return Cell(
            **{**dict(part), "verdict": verdict, "sentence": text},
            number=planned.number,
            key=planned.key,
            setup=planned.setup,
            reference=planned.number in {pair.other for pair in self.pairs if not pair.stored},
        )

    def _with_times(self, cell: Cell, comparisons: list[TimeComparison]) -> Cell:
        """Return the cell with its times in the verdict and the sentence."""
        by_mark = {mark: [c for c in comparisons if c.mark == mark] for mark in MARKS}
        open_times = by_mark["undecided"] if self.gate.time.undecided == "inconclusive" else []
        verdict: Verdict = "pass"
        text = ""
        if slower := by_mark["slower"]:
            verdict = "fail"
            text = f" Slower: {slower[0].label}, {slower[0].words}{_more(slower)}."
        elif unknown := [*by_mark["too few"], *open_times]:
            verdict = "inconclusive"
            text = f" Not known: {unknown[0].label}, {unknown[0].words}{_more(unknown)}."
        elif comparisons and not by_mark["within"]:
            verdict = "inconclusive"
            text = f" Not known: of {len(comparisons)} times none is shown to be within its margin, nor beyond it."
        elif not comparisons and (pair := next((p for p in self._timed if p.number == cell.number), None)):
            verdict = "inconclusive"
            text = f" Not known: no time was measured in {pair.name} to compare with."
        return cell.model_copy(update={"verdict": merge([cell.verdict, verdict]), "sentence": cell.sentence + text})

    def _comparisons(self, cells: Mapping[int, Cell]) -> list[TimeComparison]:
        measured: list[TimeComparison] = []
        for pair in self._timed:
            then = self.stored.cell(pair.other) if pair.stored and self.stored else cells[pair.other]
            measured += _measured(cells[pair.number], then, pair.name, self.gate.time)
        return _decide(measured, cells, self.gate.time)


def _integrity(gate: Gate, runs: list[TrialRun], high: float) -> tuple[Verdict, str]:
    """Return the verdict over the records of a cell's runs, and its sentence."""
    failed = [run for run in runs if run.verdict == "fail"]
    unsure = [run for run in runs if not run.conclusive]
    conclusive = len(runs) - len(unsure)
    summary = f"{len(failed)} of {conclusive} runs broke the contract"
    if failed:
        return "fail", f"{summary}: {failed[0].sentence}"
    if conclusive == 0:
        return "inconclusive", f"No run is conclusive. {runs[0].sentence}" if runs else "The cell did not run."
    summary += f", so fewer than {100 * high:.1f} % do, at 95 %"
    if (missing := gate.repeat - len(runs)) > 0:
        return "inconclusive", f"{missing} of {gate.repeat} runs are missing; {summary}."
    if len(unsure) > gate.integrity.inconclusive:
        return "inconclusive", f"{len(unsure)} of {len(runs)} runs are inconclusive: {unsure[0].sentence} {summary}."
    if gate.integrity.below is not None and high > gate.integrity.below:
        demand = f"{100 * gate.integrity.below:g} %"
        return "inconclusive", f"Too few runs are conclusive: {summary}, and the gate demands {demand}."
    note = f" ({len(unsure)} inconclusive)" if unsure else ""
    return "pass", f"{summary}{note}."


def _measured(now: Cell, then: Cell, reference: str, times: Times) -> Iterator[TimeComparison]:
    """Yield every judged time that the partner has in at least half of its runs, tested but not decided.

    A time that occurs rarely (after a random rebalance, say) is no basis for a comparison.
    """
    values = _values(now, times)
    for (metric, scope, fault, stat), earlier in _values(then, times).items():
        if len(earlier) * 2 < then.conclusive:
            continue
        own, margin = values.get((metric, scope, fault, stat), []), times.margin_of(metric)
        resolution = RESOLUTION_US.get(metric, SAMPLED_US)
        slower_p, within_p = ranks.beyond(own, earlier, margin, resolution) if own and earlier else (None, None)
        yield TimeComparison(
            cell=now.number,
            reference=reference,
            metric=metric,
            scope=scope,
            fault=fault,
            stat=stat,
            margin=margin,
            now=len(own),
            then=len(earlier),
            median_us=statistics.median(own) if own else None,
            was_us=statistics.median(earlier) if earlier else None,
            slower_p=slower_p,
            within_p=within_p,
            mark="undecided",
            words="",
        )


def _values(cell: Cell, times: Times) -> dict[TimeKey, list[int]]:
    values: dict[TimeKey, list[int]] = {}
    for run in cell.runs:
        for time in run.times if run.conclusive else []:
            if time.metric in times.only:
                values.setdefault(time.key, []).append(time.value_us)
    return values


def _decide(measured: list[TimeComparison], cells: Mapping[int, Cell], times: Times) -> list[TimeComparison]:
    """Decide on every time, with Holm's correction over all of them."""
    alpha = 1 - times.confidence
    slower = ranks.holm([1.0 if one.slower_p is None else one.slower_p for one in measured], alpha)
    return [
        _decided(one, cells[one.cell].conclusive, is_slower, alpha, len(measured))
        for one, is_slower in zip(measured, slower, strict=True)
    ]


def _decided(one: TimeComparison, conclusive: int, slower: bool, alpha: float, tests: int) -> TimeComparison:
    # a recovery that never happened has no time: the times of the other runs must not hide that
    enough = ranks.smallest(one.now, one.then) <= alpha / tests and one.now * 2 >= conclusive
    within = one.within_p is not None and one.within_p <= alpha
    mark: Mark = "slower" if slower else "too few" if not enough else "within" if within else "undecided"
    text = f"{one.ratio:.2f} times {one.reference}" if one.ratio is not None else f"compared with {one.reference}"
    if mark == "too few":
        text += f": measured in {one.now} of {conclusive} runs, and {one.then} times there"
    else:
        text += f": {MARKS[mark]} of {one.margin:g}"
    return one.model_copy(update={"mark": mark, "words": text})


def _more(items: Sequence[object]) -> str:
    return f" (and {len(items) - 1} more)" if len(items) > 1 else ""


def _too_few(comparisons: list[TimeComparison], gate: Gate) -> list[str]:
    few = [c for c in comparisons if c.mark == "too few"]
    if not few:
        return []
    needed = ranks.needed(1 - gate.time.confidence, len(comparisons))
    return [
        f"Too few repeats: {len(few)} of {len(comparisons)} times were measured too rarely to show anything. This "
        f"number of times takes {needed} values on each side, and repeat is {gate.repeat}."
    ]


def sentence(result: GateResult) -> str:
    """Return the summary of a gate: cells by verdict, integrity, and times."""
    by_verdict = {v: [cell for cell in result.cells if cell.verdict == v] for v in WORST_FIRST}
    runs, conclusive = sum(len(cell.runs) for cell in result.cells), sum(cell.conclusive for cell in result.cells)
    parts = [f"{len(by_verdict['pass'])} of {len(result.cells)} cells passed, in {runs} runs."]
    labels: dict[Verdict, str] = {"fail": "failed", "inconclusive": "inconclusive"}
    for verdict, label in labels.items():
        if cells := by_verdict[verdict]:
            more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
            parts.append(f"{len(cells)} {label}: {'; '.join(cell.key.name for cell in cells[:3])}{more}.")
    if result.left_out:
        clients = ", ".join(dict.fromkeys(out.key.client for out in result.left_out))
        parts.append(f"{len(result.left_out)} cannot run and were not judged ({clients}).")
    failed = sum(cell.failed for cell in result.cells)
    parts.append(f"Integrity: {failed} of {conclusive} runs broke the contract.")
    return " ".join([*parts, _times_sentence(result)])


def _times_sentence(result: GateResult) -> str:
    if not result.compared_with:
        return "Times were not judged: there was nothing to compare them with."
    marks = [c.mark for c in result.comparisons]
    counts = [f"{marks.count(mark)} {_SHORT[mark]}" for mark in _SHORT if mark in marks]
    return f"Times compared with {result.compared_with}: {', '.join(counts) or 'none was measured'}."
