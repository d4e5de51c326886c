"""Findings about effects as sentences: which input, where and when, and where its effects are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chaos.anomalies.causes import CAUSES
from chaos.ledger.schemas import EFFECT_READS
from chaos.run.directory import Run
from chaos.run.result import EFFECT_KINDS, EffectCount, EffectStory, Frame
from chaos.scenario.resolve import Resolved
from checks.effects.tables import BEHIND
from checks.evidence import audit_rows, ledger_rows

Row = dict[str, Any]
KINDS = (*EFFECT_KINDS, BEHIND, "late")
LISTED = 20
"""Findings of a kind in the report."""
SHOWN = 3
"""Findings of a kind in a sentence."""


def effect_counts(run: Run, resolved: Resolved, began_us: int) -> list[EffectCount]:
    """Return the numbers of each effect with its first findings."""
    reads = {row["effect"]: row for row in ledger_rows(run, "effect_reads", EFFECT_READS.names)}
    totals, findings = audit_rows(run, "effect_totals"), audit_rows(run, "effect_findings")
    found = []
    for effect in resolved.scenario.effects:
        read = reads.get(effect.name)
        of_effect = {row["kind"]: row for row in totals if row["effect"] == effect.name}
        counts = {kind: row for kind, row in of_effect.items() if kind in KINDS and row["count"] is not None}
        first = {
            kind: [sentence(f, began_us) for f in findings if (f["effect"], f["kind"]) == (effect.name, kind)][:LISTED]
            for kind in KINDS
        }
        found.append(
            EffectCount(
                name=effect.name,
                source=effect.describe(),
                inputs=of_effect["missing"]["examined"] if "missing" in of_effect else 0,
                effects=(read and read["rows"]) or 0,
                counts={kind: row["count"] for kind, row in counts.items()},
                undecided={kind: row["undecided"] for kind, row in counts.items() if row["undecided"]},
                late_us={
                    kind.removeprefix("late "): row["count"] + row["undecided"]
                    for kind, row in of_effect.items()
                    if kind.startswith("late ") and row["count"] is not None
                },
                findings={kind: sentences for kind, sentences in first.items() if sentences},
                stories=_stories(
                    [f for f in findings if f["effect"] == effect.name], began_us, effect.topic is not None
                ),
                error=(read["error"] or "") if read else "it was not read",
            )
        )
    return found


def describe(kind: str, count: int, examined: int, effect: str, findings: Sequence[Row], began_us: int) -> str:
    """Return the number of a kind with its first findings. began_us: when the run began."""
    one = count == 1
    noun, be = f"{'effect' if one else 'effects'} in {effect}", "is" if one else "are"
    wholes = {
        "missing": f"{count:,} {noun} {be} missing, for {examined:,} inputs",
        "duplicate": f"{count:,} {noun} {be} more than the inputs must have",
        "unexpected": f"{count:,} {noun} {'has' if one else 'have'} no input that was written",
        "wrong": f"{count:,} {noun} {'has' if one else 'have'} a wrong value",
        BEHIND: f"{count:,} {'input' if one else 'inputs'} had no effect {effect} yet",
    }
    if not count:
        nothing = {"missing": "no input lacks it", "wrong": "no value is wrong", BEHIND: "no input was behind"}
        return f"effect {effect}: {nothing.get(kind, f'none is {kind}')} among {examined:,}"
    of_kind = [f for f in findings if f["kind"] == kind]
    causes = {f.get("cause") for f in of_kind[:LISTED]}
    cause = causes.pop() if len(causes) == 1 else None
    whole = wholes[kind] + (f" ({CAUSES[cause].text})" if cause else "")
    first = [sentence(f, began_us, because=not cause) for f in of_kind[:1]]
    return "; ".join([whole, *first, *(sentence(f, began_us, story=False) for f in of_kind[1:SHOWN])])


def undecided(kind: str, number: int, unreadable: str) -> str:
    """Return why a number is a range. unreadable: what says that rows have no id, empty if all have one."""
    if unreadable:
        return unreadable
    if kind == "unexpected":
        return (
            f"{number:,} effects may be of inputs that a killed producer did not record, or that are no longer in the "
            "log, or older than the run"
        )
    if kind == BEHIND:
        return f"it is not known when the effects of {number:,} inputs came"
    if kind == "wrong":
        return f"the values of the inputs of {number:,} effects are not known"
    written = "the producer did not learn whether their inputs were written, and they are, or may have been deleted"
    return f"{number:,} more may be {kind}: {written}"


def sentence(finding: Row, began_us: int, *, story: bool = True, because: bool = True) -> str:
    """Return a finding as a sentence without its end, with its story from the wire, and the cause that this shows."""
    kind, effect, places = finding["kind"], finding["effect"], _places(finding, began_us)
    subject = f"{finding['id']}{_where(finding, began_us)}"
    told = _story(finding, began_us, because) if story else ""
    why = "; ".join(part for part in (finding["why"], told) if part)
    reason = f": {why}" if why else ""
    if kind == "missing":
        has = f"has only {len(finding['places'])} of {effect} ({places})" if places else f"has no {effect}"
        return f"{subject} {has}{reason}"
    if kind == "duplicate":
        return f"{subject} has more than it should of {effect}: {places}{reason}"
    if kind == "unexpected":
        return f"{effect} {finding['id']} ({places}) has no input{reason}"
    if kind == "wrong":
        return f"{subject} has {finding['found']} in {effect} and not {finding['expected']} ({places}){reason}"
    if kind == BEHIND:
        return f"{subject} had no {effect} yet ({places or 'and has none'}){reason}"
    return f"{subject} has its {effect} late ({places}){reason}"


def _story(finding: Row, began_us: int, because: bool) -> str:
    """Return what the wire saw of a finding; empty if it has no story."""
    frames = [frame for frame in finding.get("frames") or () if frame["words"]]
    clauses = [f"{frame['words']} at {seconds(frame['at_us'], began_us)}" for frame in frames]
    told = ", ".join(clauses) + (", and " if clauses and finding["ending"] else "") + (finding.get("ending") or "")
    return told + (f": {CAUSES[finding['cause']].text}" if because and finding["cause"] else "") if told else ""


def _stories(findings: Sequence[Row], began_us: int, of_topic: bool) -> list[EffectStory]:
    """Return a story for each kind and cause, by the first finding that has it. of_topic: of a record of a topic."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for finding in findings:
        if finding.get("frames"):
            groups.setdefault((finding["kind"], finding["cause"] or ""), []).append(finding)
    return [
        EffectStory(
            kind=kind,
            cause=CAUSES[cause].text if cause else "",
            number=len(rows),
            sentence=sentence(rows[0], began_us),
            prevents=CAUSES[cause].prevention(rows[0]["library"] or "", of_topic) if cause else "",
            library=rows[0]["library"] or "",
            frames=[Frame.model_validate(frame) for frame in rows[0]["frames"]],
        )
        for (kind, cause), rows in groups.items()
    ]


def _where(finding: Row, began_us: int) -> str:
    """Return the position of the input and the time of its acknowledgement, in brackets."""
    parts = []
    if finding["partition"] is not None:
        at = f" offset {finding['offset']:,}" if finding["offset"] is not None else ""
        parts.append(f"{finding['topic']}/{finding['partition']}{at}")
    if finding["acked_us"] is not None:
        parts.append(f"acknowledged at {seconds(finding['acked_us'], began_us)}")
    return f" ({', '.join(parts)})" if parts else ""


def _places(finding: Row, began_us: int) -> str:
    pairs = zip(finding["places"] or (), finding["times_us"] or (), strict=False)
    return " and ".join(f"{where}{f' at {seconds(at, began_us)}' if at else ''}" for where, at in pairs)


def seconds(at_us: int, began_us: int) -> str:
    """Return a time as seconds since the begin of the run."""
    return f"{(at_us - began_us) / 1e6:,.1f} s"
