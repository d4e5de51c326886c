"""The sentence of a proof."""

from __future__ import annotations

from chaos.run.proof_result import ProofResult

_SIZES = ("no fault", "one fault", "two faults")


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
    """Return whether all sets up to a size were tried, of which there are some."""
    return proof.planned[size] > 0 and proof.tried[: size + 1] == proof.planned[: size + 1]


def _tried(proof: ProofResult) -> str:
    unknown = f", {len(proof.unknown)} of them without a verdict" if proof.unknown else ""
    singles, pairs = proof.planned[1:]
    return (
        f"Tried: {proof.tried[1]} of {singles} kinds of faults alone, {proof.tried[2]} of {pairs} pairs{unknown}; "
        f"{len(proof.runs)} runs."
    )
