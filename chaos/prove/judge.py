"""The judgement of a proof, from its stored runs alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chaos.campaign.score import this_machine
from chaos.prove.application import Application
from chaos.prove.breaks import breaks
from chaos.prove.follow_up import FollowUp
from chaos.prove.plan import FaultSet, FaultSets
from chaos.prove.sentences import sentence
from chaos.prove.supports import OTHER, Outcome, outcome_of
from chaos.run.campaign import ProofRun
from chaos.run.events import now_us
from chaos.run.proof_result import FaultKind, NotTested, PromiseResult, ProofResult, Said, State, TriedSet
from chaos.run.result import Verdict

NEVER: dict[str, str] = {
    "availability": "prove judges records, not times: see `produce_unavailability` in scenarios",
    "delivery/lag": "retention takes longer than a run: see the scenario retention-lag",
    "delivery/idle": "offsets expire later than a run ends: see the scenario offsets-expire",
    "order/partitioner": "no run adds partitions: see the scenario partitions-added",
    "order/keys": "no run adds partitions: see the scenario partitions-added",
}
"""Questions of `promise` that no set of faults tests, by aspect or aspect/id, and why."""


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
        unknown = [self._tried(sets[name], own) for name, own in _by_set(runs).items() if not any(map(_counts, own))]
        verdict = _verdict(promises, [sets[t.set] for t in unknown])
        planned, tried = self._sizes(sets.values()), self._sizes(sets[name] for name in _by_set(runs))
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
        by_set = _by_set(runs)
        examined = {s.id: [r for r in by_set.get(s.id, []) if _examines(r, outcome)] for s in own}
        tests = {name: [r for r in found if _promises(r, outcome)] for name, found in examined.items()}
        tried = [s for s in own if s.id in by_set]
        clean = [s for s in own if examined[s.id] and not any(self._shows(r, outcome) for r in examined[s.id])]
        state = self._state(outcome, [r for r in runs if r.purpose != "mended"], examined, tests)
        answers = self.follow_up.answers(outcome.id)
        if state == "held" and answers and all(answer.level == "none" for answer in answers):
            state = "partly"
        return PromiseResult(
            id=outcome.id,
            title=outcome.title,
            state=state,
            said=[Said(level=a.level, title=a.title, promise=a.promise, until=a.until, lift=a.lift) for a in answers],
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
    """Return whether the contract of a run forbids an anomaly of a promise, of which rows were examined."""
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


def _by_set(runs: Iterable[ProofRun]) -> dict[str, list[ProofRun]]:
    found: dict[str, list[ProofRun]] = {}
    for run in runs:
        if run.purpose != "mended":
            found.setdefault(run.set, []).append(run)
    return found


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
