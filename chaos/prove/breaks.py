"""What broke, or was seen though it is not promised: the smallest set of faults, how often, and what mends it."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.prove.follow_up import FollowUp, smaller_sets
from chaos.prove.lifts import describe
from chaos.prove.supports import outcome_of, rules
from chaos.run.campaign import FoundAnomaly, ProofRun
from chaos.run.proof_result import Break, Mend

STATES: dict[str, bool | None] = {"forbidden": True, "allowed": False, "not decided": None}


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
        breaks=rules()[promise].breaks,
        promised=STATES[state],
        set=smallest,
        title=follow_up.sets[smallest].title,
        anomalies=[here[0][1]],
        shown=len(here),
        of=max(len(conclusive), len(here)),
        runs=[run.run_id for run, _ in here],
        smaller=list(_smaller(follow_up, smallest, name, runs)),
        bundle=next((run.bundle for run, _ in here if run.bundle), ""),
        lift=_lift(follow_up, here[0][0], promise),
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


def _lift(follow_up: FollowUp, run: ProofRun, promise: str) -> str:
    """Return what lifts the limit, by `promise`."""
    return "; or ".join(dict.fromkeys(a.lift for a in follow_up.answers(promise) if a.lift and a.level != "full"))


def _mend(follow_up: FollowUp, run: ProofRun, anomaly: FoundAnomaly, mended: list[ProofRun]) -> Mend | None:
    """Return the outcome of the same set of faults with the setting that mends it; None without a run."""
    lifts = follow_up.lifts_for(run, anomaly)
    own = [other for other in mended if lifts and (other.set, other.change) == (run.set, describe(lifts))]
    if not own:
        return None
    last = next((other for other in own if other.state != "unknown"), own[-1])
    shows = any(found.name == anomaly.name for found in last.anomalies)
    held = None if last.state == "unknown" else not shows
    return Mend(change=last.change, held=held, run=last.run_id, sentence=last.sentence)
