"""The judgement of a proof from its stored runs: what each shows, which promises hold, what broke, in a sentence.

`observe` keeps what a finished run shows. `ProofJudge` decides about each promise, and names what broke or was seen
though it is not promised: the smallest set of faults, how often, and what mends it. `changes` compares an earlier
proof.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.anomalies import ANOMALIES, PHRASES
from chaos.campaign.folder import Folder
from chaos.campaign.prove.application import Application, describe
from chaos.campaign.prove.plan import FaultSet, FaultSets, FollowUp, Task, by_set, smaller_sets
from chaos.campaign.score import this_machine
from chaos.errors import RunDirError, UsageError
from chaos.guarantees.contract import Contract, contract
from chaos.guarantees.supports import OTHER, Outcome, outcome_of
from chaos.guarantees.table import supported
from chaos.lab.lab import FinishedRun
from chaos.run.campaign import FoundAnomaly, ProofRun, RunState
from chaos.run.directory import read_model
from chaos.run.events import now_us
from chaos.run.proof import Break, Change, FaultKind, Mend, NotTested, PromiseResult, ProofResult, Said, State, TriedSet
from chaos.run.result import Result, Verdict
from chaos.scenario.model import Scenario

NOTHING_WRITTEN = "No record was acknowledged, so the run proves nothing."
NOTHING_READ = "No reader received a record, so the run proves nothing."
NEVER: dict[str, str] = {
    "availability": "prove judges records, not times: see `produce_unavailability` in scenarios",
    "delivery/lag": "retention takes longer than a run: see the scenario retention-lag",
    "delivery/idle": "offsets expire later than a run ends: see the scenario offsets-expire",
    "order/partitioner": "no run adds partitions: see the scenario partitions-added",
    "order/keys": "no run adds partitions: see the scenario partitions-added",
}
"""Questions of `promise` that no set of faults tests, by aspect or aspect/id, and why."""
PROMISED: dict[str, bool | None] = {"forbidden": True, "allowed": False, "not decided": None}
_SIZES = ("no fault", "one fault", "two faults")
STATES: dict[State, str] = {
    "held": "held",
    "partly": "held in part",
    "unpromised": "not promised",
    "untested": "not tested",
    "unknown": "not known",
    "broken": "broken",
}
"""The states of a promise as text, the better ones first."""


def observe(task: Task, finished: FinishedRun, folder: Folder) -> ProofRun:
    """Return what is stored of a run. A run that broke a promise is packed into a bundle."""
    stored = ProofRun(
        set=task.faults.id,
        purpose=task.purpose,
        change=task.change,
        n=task.n,
        seed=finished.seed,
        verdict=finished.outcome.verdict,
        state="unknown",
        sentence=finished.outcome.sentence,
        seconds=round(finished.seconds, 1),
        run_id=finished.run.run_id,
    )
    if not finished.run.result.exists():
        return stored
    result, scenario = Result.read(finished.run), task.subject.scenario
    derived = contract(scenario)
    anomalies = list(_anomalies(result, derived))
    state, sentence = _state(result, anomalies, scenario)
    examined: Counter[str] = Counter()
    for total in result.totals:
        examined[total.check] += total.examined
    report = os.path.relpath(finished.run.report, folder.path) if finished.run.report.exists() else ""
    return stored.model_copy(
        update={
            "state": state,
            "sentence": sentence,
            "anomalies": anomalies,
            "examined": {check: rows for check, rows in examined.items() if rows},
            "promised": [line.name for line in derived.lines if line.state == "forbidden"],
            "acked": result.counts.acked,
            "delivered": sum(reader.delivered for reader in result.counts.readers),
            "report": report,
            "bundle": folder.pack_run(finished.run.run_id) if state == "broken" else "",
        }
    )


def _anomalies(result: Result, derived: Contract) -> Iterator[FoundAnomaly]:
    counts: Counter[tuple[str, str]] = Counter()
    for total in result.totals:
        counts[total.check, total.split] += total.count
    for (check, split), count in counts.items():
        if count and check in ANOMALIES:
            line = derived.line(check, split)
            text = PHRASES[check, split].describe(count)
            yield FoundAnomaly(name=line.name, count=count, state=line.state, reason=line.reason, text=text)


def _state(result: Result, anomalies: list[FoundAnomaly], scenario: Scenario) -> tuple[RunState, str]:
    """Return what a run shows, and why. A broken promise counts whatever else is missing from the run."""
    if any(anomaly.state == "forbidden" for anomaly in anomalies) and result.verdict == "fail":
        return "broken", result.sentence
    missing = [e for e in result.expectations if e.verdict != "pass" and e.check not in ANOMALIES]
    if missing:
        why = "; ".join(e.why or f"{e.name}: expected {e.expected}, seen {e.seen}" for e in missing)
        shown = "; ".join(anomaly.text for anomaly in anomalies)
        return "unknown", f"{shown}, which does not count as an effect of the fault: {why}" if shown else why
    if result.counts.acked == 0:
        return "unknown", NOTHING_WRITTEN
    if scenario.groups and not any(reader.delivered for reader in result.counts.readers):
        return "unknown", NOTHING_READ
    if any(anomaly.state == "not decided" for anomaly in anomalies):
        return "undecided", result.sentence
    return ("held", result.sentence) if result.verdict == "pass" else ("unknown", result.sentence)


@dataclass(frozen=True)
class ProofJudge:
    """The judge of one proof."""

    application: Application
    outcomes: list[Outcome]
    plan: FaultSets
    follow_up: FollowUp
    seed: int
    command: str

    def result(self, runs: list[ProofRun], seconds: float) -> ProofResult:
        """Return what the stored runs show. seconds: how long they took."""
        promises = [self._promise(outcome, runs) for outcome in self.outcomes]
        broken, seen = breaks(self.follow_up, runs)
        sets = {s.id: s for s in self.plan.sets}
        unknown = [self._tried(sets[name], own) for name, own in by_set(runs).items() if not any(map(_counts, own))]
        verdict = _verdict(promises, [sets[t.set] for t in unknown])
        planned, tried = self._sizes(sets.values()), self._sizes(sets[name] for name in by_set(runs))
        cluster = self.application.raw["cluster"]
        found = ProofResult(
            title=self.application.title,
            name=self.application.title,
            verdict=verdict,
            sentence="",
            command=self.command,
            made_us=now_us(),
            machine=this_machine(),
            kafka=str(cluster["kafka"]),
            application=self.application.promises.application,
            assumed=self.application.assumed,
            left_out=self.application.left_out,
            changed=self.application.changed,
            notes=self.application.promises.notes,
            promises=promises,
            broken=broken,
            seen=seen,
            not_tested=self._not_tested(promises),
            kinds=[FaultKind(id=s.id, title=s.title) for s in self.plan.sets if len(s.faults) == 1],
            planned=planned,
            tried=tried,
            unknown=unknown,
            unrelated=self.plan.unrelated,
            seed=self.seed,
            seconds=round(seconds, 1),
            per_hour=round(3600 * len(runs) / seconds, 1) if seconds else 0.0,
            runs=runs,
        )
        return found.model_copy(update={"sentence": sentence(found)})

    def _sizes(self, sets: Iterable[FaultSet]) -> list[int]:
        """Return the number of sets with no fault, one, and two."""
        sizes = [len(s.faults) for s in sets]
        return [sizes.count(n) for n in range(3)]

    def _promise(self, outcome: Outcome, runs: list[ProofRun]) -> PromiseResult:
        own = [s for s in self.plan.sets if s.faults and outcome.is_touched(s.cuts)]
        runs_of = by_set(runs)
        examined = {s.id: [r for r in runs_of.get(s.id, []) if _examines(r, outcome)] for s in own}
        tests = {name: [r for r in found if _promises(r, outcome)] for name, found in examined.items()}
        tried = [s for s in own if s.id in runs_of]
        clean = [s for s in own if examined[s.id] and not any(self._shows(r, outcome) for r in examined[s.id])]
        state = self._state(outcome, [r for r in runs if r.purpose != "mended"], examined, tests)
        answers = self.follow_up.answers(outcome.id)
        if state == "held" and answers and all(answer.level == "none" for answer in answers):
            state = "partly"
        return PromiseResult(
            id=outcome.id,
            title=outcome.title,
            state=state,
            said=[
                Said(level=a.level, title=a.title, promise=a.promise, until=a.until, remedy=a.remedy) for a in answers
            ],
            supports=[support.what for support in outcome.supports],
            sets=[self._tried(s, tests[s.id], outcome) for s in own if tests[s.id]],
            unpromised=sum(bool(examined[s.id]) and not tests[s.id] for s in own),
            cut=[s.title for s in clean if outcome.id in s.cuts_all],
            unknown=[s.title for s in tried if not examined[s.id]],
            why=_why(state, own, tried),
        )

    def _state(
        self,
        outcome: Outcome,
        runs: list[ProofRun],
        examined: dict[str, list[ProofRun]],
        tests: dict[str, list[ProofRun]],
    ) -> State:
        if any(self._broke(run, outcome) for run in runs):
            return "broken"
        if any(_counts(run) and self._shows(run, outcome) for run in runs):
            return "unpromised"
        if any(tests.values()):
            return "held"
        if any(examined.values()):
            return "unpromised"
        return "unknown" if any(run.set in examined for run in runs) else "untested"

    def _shows(self, run: ProofRun, outcome: Outcome) -> bool:
        return any(outcome_of(anomaly.name, self.outcomes) == outcome.id for anomaly in run.anomalies)

    def _broke(self, run: ProofRun, outcome: Outcome) -> bool:
        return any(outcome_of(anomaly.name, self.outcomes) == outcome.id for anomaly in run.found("forbidden"))

    def _tried(self, faults: FaultSet, runs: list[ProofRun], outcome: Outcome | None = None) -> TriedSet:
        left = [support.what for support in outcome.left(faults.cuts)] if outcome else []
        return TriedSet(set=faults.id, title=faults.title, left=left, runs=[run.run_id for run in runs])

    def _not_tested(self, promises: list[PromiseResult]) -> list[NotTested]:
        found = [NotTested(title=p.title, why=p.why) for p in promises if p.state == "untested" and p.id != OTHER]
        for answer in self.application.promises.answers:
            why = NEVER.get(f"{answer.aspect}/{answer.id}") or NEVER.get(answer.aspect)
            if why:
                found.append(NotTested(title=f"{answer.title}: {answer.promise}", why=why))
        return found


def _counts(run: ProofRun) -> bool:
    return run.state != "unknown"


def _examines(run: ProofRun, outcome: Outcome) -> bool:
    """Return whether a run counts, and rows that concern a promise were examined."""
    return _counts(run) and any(run.examined.get(name.partition(".")[0]) for name in outcome.shows)


def _promises(run: ProofRun, outcome: Outcome) -> bool:
    """Return whether the contract of a run forbids an anomaly of a promise, and its rows were examined."""
    forbidden = {name for name in run.promised if run.examined.get(name.partition(".")[0])}
    return any(name in forbidden for name in outcome.shows)


def _why(state: State, own: list[FaultSet], tried: list[FaultSet]) -> str:
    if state == "partly":
        return "what Kafka's own protocol promises held; the settings promise nothing"
    if state == "unknown":
        return f"no set of faults that concerns it has a verdict, of {len(tried)} tried"
    if state != "untested":
        return ""
    return "the time was over before a set of faults that concerns it" if own else "no fault class concerns it"


def _verdict(promises: list[PromiseResult], unknown: list[FaultSet]) -> Verdict:
    """Return the verdict. A single fault without a verdict leaves the proof inconclusive; a pair does not."""
    states = [promise.state for promise in promises]
    if "broken" in states:
        return "fail"
    if (
        not {"held", "partly", "unpromised"} & set(states)
        or "unknown" in states
        or any(len(s.faults) < 2 for s in unknown)
    ):
        return "inconclusive"
    return "pass"


def breaks(follow_up: FollowUp, runs: list[ProofRun]) -> tuple[list[Break], list[Break]]:
    """Return the broken promises, and what was seen though it is not promised: one of each for each anomaly.

    A run that proves nothing shows neither: its sentence names its anomalies, and why they do not count.
    """
    own = [run for run in runs if run.purpose != "mended" and run.state != "unknown"]
    kinds: dict[tuple[str, bool], list[tuple[ProofRun, FoundAnomaly]]] = {}
    for run in own:
        for anomaly in run.anomalies:
            kinds.setdefault((anomaly.name, anomaly.state == "forbidden"), []).append((run, anomaly))
    found = {key: _break(follow_up, key[0], shown, runs) for key, shown in kinds.items()}
    broken = [b for (_, promised), b in found.items() if promised]
    return broken, [b for (_, promised), b in found.items() if not promised]


def _break(follow_up: FollowUp, name: str, shown: list[tuple[ProofRun, FoundAnomaly]], runs: list[ProofRun]) -> Break:
    smallest = min((run.set for run, _ in shown), key=lambda s: _size(follow_up, s))
    here = [(run, anomaly) for run, anomaly in shown if run.set == smallest]
    conclusive = [r for r in runs if r.set == smallest and r.purpose != "mended" and r.state != "unknown"]
    promise = outcome_of(name, follow_up.outcomes)
    # an anomaly is not decided only if no run has it otherwise
    state = "forbidden" if here[0][1].state == "forbidden" else min(anomaly.state for _, anomaly in here)
    mended = [run for run in runs if run.purpose == "mended"]
    return Break(
        promise=promise,
        breaks=supported()[promise].breaks,
        promised=PROMISED[state],
        set=smallest,
        title=follow_up.sets[smallest].title,
        anomalies=[here[0][1]],
        shown=len(here),
        of=max(len(conclusive), len(here)),
        runs=[run.run_id for run, _ in here],
        smaller=list(_smaller(follow_up, smallest, name, runs)),
        bundle=next((run.bundle for run, _ in here if run.bundle), ""),
        remedy=_remedy(follow_up, promise),
        mend=next((m for run, anomaly in shown if (m := _mend(follow_up, run, anomaly, mended))), None),
    )


def _size(follow_up: FollowUp, name: str) -> int:
    return len(follow_up.sets[name].faults)


def _smaller(follow_up: FollowUp, name: str, anomaly: str, runs: list[ProofRun]) -> Iterable[str]:
    """Yield what the runs of each smaller set show."""
    for smaller in smaller_sets(follow_up.sets[name]):
        own = [r for r in runs if r.set == smaller and r.purpose != "mended" and r.state != "unknown"]
        with_it = sum(any(a.name == anomaly for a in run.anomalies) for run in own)
        yield f"{follow_up.sets[smaller].title}: {with_it} of {len(own)} runs show it"


def _remedy(follow_up: FollowUp, promise: str) -> str:
    """Return the remedy that `promise` names."""
    return "; or ".join(dict.fromkeys(a.remedy for a in follow_up.answers(promise) if a.remedy and a.level != "full"))


def _mend(follow_up: FollowUp, run: ProofRun, anomaly: FoundAnomaly, mended: list[ProofRun]) -> Mend | None:
    """Return the outcome of the same set of faults with the setting that mends it; None without a run."""
    changed = follow_up.remedy_for(run, anomaly)
    own = [other for other in mended if changed and (other.set, other.change) == (run.set, describe(changed))]
    if not own:
        return None
    last = next((other for other in own if other.state != "unknown"), own[-1])
    shows = any(found.name == anomaly.name for found in last.anomalies)
    held = None if last.state == "unknown" else not shows
    return Mend(change=last.change, held=held, run=last.run_id, sentence=last.sentence)


def sentence(proof: ProofResult) -> str:
    """Return the answer in one or two sentences, which claim no more than the runs show."""
    if proof.broken:
        first = proof.broken[0]
        more = f", and {len(proof.broken) - 1} more" if len(proof.broken) > 1 else ""
        return (
            f"{first.title[0].upper()}{first.title[1:]} {first.breaks}: {first.anomalies[0].text} "
            f"({first.shown} of {first.of} runs){more}. {_tried(proof)}"
        )
    if proof.verdict == "inconclusive":
        why = [f"{t.title} has no verdict" for t in proof.unknown if "+" not in t.set]
        why += [f'"{p.title}": {p.why}' for p in proof.promises if p.state == "unknown"]
        return f"Not known: {why[0] if why else 'no run with a fault has a verdict'}. {_tried(proof)}{_seen(proof)}"
    return f"{_claim(proof)}{_seen(proof)}"


def _seen(proof: ProofResult) -> str:
    """Return what was seen though it is not promised; the promises are in the order of their weight."""
    order = [promise.id for promise in proof.promises]
    found = sorted(proof.seen, key=lambda b: order.index(b.promise) if b.promise in order else len(order))
    if not found:
        return ""
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f" Not promised, and seen: {found[0].anomalies[0].text} under {found[0].title}{more}."


def _claim(proof: ProofResult) -> str:
    kinds = len(proof.kinds)
    complete = max((n for n in range(3) if _complete(proof, n)), default=0)
    unknown = f", {len(proof.unknown)} without a verdict" if proof.unknown else ""
    if complete and sum(proof.tried[complete + 1 :]) == 0:
        size = f"at most {_SIZES[complete]}"
        return f"No set of {size} of these {kinds} kinds breaks a promise: {sum(proof.tried)} sets tried{unknown}."
    return f"No set that was tried breaks a promise. {_tried(proof)}"


def _complete(proof: ProofResult, size: int) -> bool:
    """Return whether there are sets of a size, and all sets up to that size were tried."""
    return proof.planned[size] > 0 and proof.tried[: size + 1] == proof.planned[: size + 1]


def _tried(proof: ProofResult) -> str:
    unknown = f", {len(proof.unknown)} of them without a verdict" if proof.unknown else ""
    singles, pairs = proof.planned[1:]
    return (
        f"Tried: {proof.tried[1]} of {singles} kinds of faults alone, {proof.tried[2]} of {pairs} pairs{unknown}; "
        f"{len(proof.runs)} runs."
    )


def read_earlier(path: Path) -> ProofResult:
    """Return an earlier proof. Raises `UsageError` if it is none."""
    try:
        return read_model(path, ProofResult, "card of a proof", "give the campaign.json of an earlier one")
    except (RunDirError, OSError) as e:
        raise UsageError(f"--baseline: {e}") from None


def changes(before: ProofResult, now: ProofResult) -> list[Change]:
    """Return what differs: the states of promises, and what broke or was seen though it is not promised."""
    return [*_changed_promises(before, now), *_changed_anomalies(before, now)]


def _changed_promises(before: ProofResult, now: ProofResult) -> Iterator[Change]:
    for promise in now.promises:
        earlier = before.promise(promise.id)
        then: State = earlier.state if earlier else "untested"
        if then != promise.state:
            ranks = list(STATES)
            regression = ranks.index(promise.state) > ranks.index(then)
            yield Change(title=promise.title, before=STATES[then], now=STATES[promise.state], regression=regression)


def _changed_anomalies(before: ProofResult, now: ProofResult) -> Iterator[Change]:
    """Yield the anomalies that only one of both proofs has seen. What was not tried again is no improvement."""
    old, new = _by_name(before), _by_name(now)
    tried = {run.set for run in now.runs}
    for name in dict.fromkeys([*old, *new]):
        if (name in old) == (name in new):
            continue
        shown = new.get(name) or old[name]
        if name in old and shown.set not in tried:
            continue
        then, today = ("seen" if name in found else "not seen" for found in (old, new))
        yield Change(title=f"{name} under {shown.title}", before=then, now=today, regression=name in new)


def _by_name(proof: ProofResult) -> dict[str, Break]:
    return {found.anomalies[0].name: found for found in (*proof.broken, *proof.seen)}
