"""The story of each finding that is shown: what the wire saw of an input, in order, and the cause that this shows.

    seen    the tables of the wire ledger, joined with the findings in Spark: few rows for each finding
    tell    one finding: its frames in order, how its sentence ends, and a key of `chaos.anomalies.causes`

A frame is an arrow between an instance and a broker, or an event of an instance (`target` is empty). A frame with
`words` is a clause of the sentence. A story has no cause if a step that decides it is not seen on the wire.

| kind      | cause                       | what was seen                                                             |
|-----------|-----------------------------|---------------------------------------------------------------------------|
| any       | altered                     | a fault of the run had changed the answer with it                         |
| missing   | lost_place                  | the same, and all that faults of the run changed are batches given twice  |
|           | commit_first                | fetched, committed past, and its instance ended before another commit     |
|           | commit_first_or_passed_over | the same, but the instance committed further before it ended              |
|           | send_failed                 | fetched, committed past, and a send to the topic of the effect failed     |
|           | failed_over                 | the same, before a standby took the place of the database of the effect   |
|           | passed_over                 | fetched, committed past, and its instance went on                         |
|           | not_owner                   | committed past by an instance that had not fetched it                     |
|           | skipped                     | never fetched: committed past, or its partition was read from behind it |
|           | set_past                    | before a commit past it, a fault set the offset of its group past it      |
|           | own_place                   | fetched, never committed past, and after its end another incarnation read |
|           |                             | on from behind it                                                         |
|           | unread, unfinished          | never fetched; fetched, and never committed past                          |
|           | left_off                    | the same, and no instance ran any more: the last ones ended by themselves |
|           | keeps_ending                | the same, and each instance ended by itself three times in a row          |
|           | task_failed                 | the same, and a task of Kafka Connect was failed at the end               |
| duplicate | not_idempotent              | fetched, its instance ended before a commit past it, fetched again        |
|           | moved                       | fetched again by another instance before a commit past it, or that commit |
|           |                             | was answered when the other instance had the partition                    |
|           | left_group                  | fetched again by the same process, which had left its group, before a     |
|           |                             | commit past it                                                            |
|           | repeated                    | the same, without that                                                    |
|           | set_back                    | fetched again after a commit past it, and a fault set the offset back     |
|           | went_back                   | the same, without such a fault                                            |
|           | sent_twice                  | two writes after one fetch                                                |
|           | done_twice                  | two effects after one fetch, in what is no topic                          |
|           | called_again                | the same, and the caller of one of the first calls left before its answer |
|           | given_twice                 | twice in one answer, by a fault of the run                                |
| late      | late_behind                 | most of the time before its first fetch, and its partition did not move   |
|           | late_down, late_moved       | the same, or before its last fetch, and an instance ended, or gave it up  |
|           | late_work                   | most of the time behind its last fetch                                    |
| wrong     | miscalculated, miscopied    | fetched as it is in the log; the same, of an effect that is to be a copy  |
|           | any of missing, duplicate   | of a sum: what is too little or too much are the amounts of such inputs   |
|           | state_lost                  | of a sum: the inputs that an instance fetched which ended are not in it   |
| unexpected | read_uncommitted           | fetched as read_uncommitted, and its transaction was aborted              |
|           | no_input, stranger          | written by an instance, or by none                                        |

Of a member of a share group (KIP-932), what it acquired is fetched, and what it accepted is committed. Such causes have
names in `OF_SHARES`, and there are more:

| kind      | cause       | what was seen                                                                             |
|-----------|-------------|-------------------------------------------------------------------------------------------|
| missing   | rejected    | never accepted, and rejected                                                              |
|           | given_up    | never accepted, and delivered as often as the brokers allow                               |
| duplicate | released    | released between two deliveries                                                           |

Fetched is not processed: a Fetch answer is the most that an application can have seen, a commit is what it claims.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import islice

from pyspark.sql import SparkSession

from chaos.effects.receiver import LEFT
from chaos.ledger.schemas import TABLES
from chaos.run.directory import Run
from chaos.run.events import FAILED_TASK, read_events
from chaos.scenario.resolve import Resolved
from checks.effects.frames import Story, error, is_shared
from checks.effects.seen import DELIVERIES, REJECT, Facts, Life, Row, Seen, Wire, app_of, replaced_of
from checks.effects.tables import BEHIND
from checks.evidence import ledger_rows
from checks.wire.tables import table_path

UNSEEN = "what its application did with it is not seen on the wire"
UNFETCHED = "its fetch is not seen on the wire"
SUMMED: Row = {"kind": "input", "acked_us": None, "places": ()}
"""An input of a sum, as a finding of its own to look for."""
TWICE = frozenset({"not_idempotent", "moved", "left_group", "repeated", "went_back", "set_back", "given_twice"})
NEVER = frozenset(
    {"commit_first", "skipped", "set_past", "unread", "not_owner", "own_place", "unfinished", "task_failed"}
)
"""Causes by which an input may be in a sum twice, or not at all."""
MOST_WAYS = 20_000
CHANGED = "a fault of the run had changed the answer with it"
CHANGING = frozenset({"wire.duplicate", "wire.corrupt", "wire.error"})
"""The faults that change answers."""


def add_stories(spark: SparkSession, run: Run, resolved: Resolved, findings: Sequence[Row], most: int) -> None:
    """Add `frames`, `ending`, `cause` and `library` to the first `most` findings of each effect and kind.

    Findings that the write path explains have no story, nor have late ones without a bound. Without a wire ledger, the
    ending says that it was not seen.
    """
    bounded = {name for name, bound in resolved.scenario.expect.effects.items() if bound.late}
    chosen, counts = [], defaultdict[tuple[str, str], int](int)
    for row in findings:
        counts[row["effect"], row["kind"]] += 1
        if row["kind"] == BEHIND or (row["kind"] == "late" and row["effect"] not in bounded):
            continue
        if row["kind"] == "unexpected" or (not row["why"] and row["offset"] is not None):
            chosen += [row] if counts[row["effect"], row["kind"]] <= most else []
    sums = [row for row in findings if row.get("inputs")]
    if not (chosen or sums) or not resolved.scenario.apps:
        return
    if not table_path(run, "fetched").exists():
        for row in (*chosen, *sums):
            row["ending"] = UNSEEN
        return
    inputs = [SUMMED | {"topic": row["topic"]} | of_key for row in sums for of_key in row["inputs"]]
    effects = {e.name: e.own_topics for e in resolved.scenario.effects}
    apps = [app.name for app in resolved.scenario.apps]
    wire = Wire(spark, run, [*chosen, *inputs], [topic for topics in effects.values() for topic in topics], apps)
    changing = {fault.kind for fault in resolved.scenario.faults if fault.kind in CHANGING}
    copies = frozenset(effect.name for effect in resolved.scenario.effects if effect.copied)
    replaced = replaced_of(resolved.scenario, ledger_rows(run, "faults", TABLES["faults"].names))
    limit = int(resolved.scenario.cluster.config.get("group.share.delivery.count.limit", DELIVERIES))
    facts = replace(
        wire.facts(),
        only_doubled=changing == {"wire.duplicate"},
        copies=copies,
        replaced=replaced,
        deliveries=limit,
        outside=frozenset(effect.name for effect in resolved.scenario.effects if effect.topic is None),
        mirrors=frozenset(app.name for app in resolved.scenario.apps if app.connect and app.connect.mirrors),
        elsewhere=any(not app.uses_primary and app.postgres is None for app in resolved.scenario.apps),
        failed_tasks=frozenset(event["app"] for event in read_events(run) if event["kind"] == FAILED_TASK),
    )
    seen = wire.seen()
    for row, of_row in zip(chosen, seen, strict=False):
        row.update(tell(row, of_row, facts, effects[row["effect"]]))
    of_inputs = iter(zip(inputs, seen[len(chosen) :], strict=True))
    for row in sums:
        of_key = list(islice(of_inputs, len(row["inputs"])))
        row.update(tell_sum(row, of_key, facts, effects[row["effect"]]))


def _altered(facts: Facts) -> str:
    """Return the cause of a missing effect after a changed answer."""
    return "lost_place" if facts.only_doubled else "altered"


def tell(finding: Row, seen: Seen, facts: Facts, outputs: Sequence[str]) -> Row:
    """Return the story of a finding. outputs: the topics of the effect, if it has any."""
    if finding.get("effect") in facts.outside:
        facts = facts.of(finding["effect"])
        seen = replace(seen, fetches=[row for row in seen.fetches if app_of(row["instance"]) not in facts.mirrors])
    story = Story(finding, facts, outputs)
    fetches, commits, readers = _of_writers(seen, facts, outputs)
    if finding["kind"] == "missing":
        ending, cause = _missing(story, fetches, commits, seen)
    elif finding["kind"] == "duplicate":
        ending, cause = _duplicate(story, fetches, commits, seen)
    elif finding["kind"] == "late":
        ending, cause = _late(story, finding, fetches, seen)
    elif finding["kind"] == "wrong":
        ending, cause = _wrong(story, finding, fetches, seen.writes)
    else:
        ending, cause = _unexpected(story, finding, fetches, seen.writes)
    if len(readers) > 1:
        ending, cause = f"{ending}; {' and '.join(sorted(readers))} read it, and which has the effect is not seen", ""
    return story.result(ending, cause)


def _of_writers(seen: Seen, facts: Facts, outputs: Sequence[str]) -> tuple[list[Row], list[Row], set[str]]:
    """Return fetches and commits of the applications that may write the effect, and their names."""
    readers = {app_of(r["instance"]) for r in (*seen.fetches, *seen.commits)}
    writers = {app_of(name) for output in outputs for name in facts.writers.get(output, ())}
    readers = readers & writers or readers
    fetches, commits = ([r for r in rows if app_of(r["instance"]) in readers] for rows in (seen.fetches, seen.commits))
    return fetches, commits, readers


def tell_sum(finding: Row, inputs: Sequence[tuple[Row, Seen]], facts: Facts, outputs: Sequence[str]) -> Row:
    """Return the story of a wrong sum: which of its inputs are in it twice, or not at all, if their amounts say so.

    inputs: of its key, with what was seen of each. An input that was fetched twice may have been counted once, so only
    amounts that make exactly the difference decide.
    """
    try:
        difference = Decimal(finding["found"] or "") - Decimal(finding["expected"] or "")
    except InvalidOperation:
        return {"why": "one of them is no number"}
    if not difference.is_finite() or not difference:
        return {"why": "they are the same number" if not difference else "one of them is no number"}
    twice, never, lost, once = [], [], [], 0
    for of_key, seen in inputs:
        fetches, commits, readers = _of_writers(seen, facts, outputs)
        if len(readers) > 1:
            return {"why": f"{' and '.join(sorted(readers))} read its inputs, and which makes it is not seen"}
        if any(row.get("made") for row in fetches):
            return {"why": "a fault of the run had changed an answer with its inputs", "cause": "altered"}
        again = _duplicate(Story(of_key, facts, outputs), fetches, commits, replace(seen, writes=[]))[1]
        left = _missing(Story(of_key, facts, outputs), fetches, commits, seen)[1]
        ended = fetches and facts.end(fetches[-1]["instance"], fetches[-1]["answered_us"])
        twice += [_Part(of_key, seen, again)] if again in TWICE else []
        never += [_Part(of_key, seen, left)] if left in NEVER and again not in TWICE else []
        lost += [_Part(of_key, seen, "state_lost")] if ended else []
        once += bool(fetches)
    by = f"{abs(difference):f} too {'much' if difference > 0 else 'little'}"
    whole = [parts for parts in (twice, never, lost) if sum(part.counted for part in parts) == difference]
    if parts := whole[0] if whole else _only(twice + never, difference):
        found = _story_of_sum(parts, len(inputs), by, facts, outputs)
        return found if len(whole) < 2 else found | {"cause": ""}
    if not (twice or never or lost) and once == len(inputs) and facts.certain:
        work = "the work makes another value of them, or passes over a failure"
        return {"why": f"it is {by}, and each of its {once:,} inputs was fetched once: {work}"}
    seen_of = f"{len(twice):,} of its {len(inputs):,} inputs were fetched again, and {len(never):,} may be left out"
    return {"why": f"it is {by}, and which of its inputs make that is not visible on the wire: {seen_of}"}


@dataclass(frozen=True)
class _Part:
    """An input of a sum that may be in it twice, or not at all. cause: as for an effect of its own."""

    of_key: Row
    seen: Seen
    cause: str

    @property
    def counted(self) -> Decimal:
        """What it would add to the sum."""
        amount = self.of_key["amount"] or Decimal(0)
        return Decimal(amount if self.cause in TWICE else -amount)


def _only(parts: Sequence[_Part], difference: Decimal) -> list[_Part]:
    """Return the parts that make a difference, if there is no other choice of them that does."""
    ways: dict[Decimal, tuple[int, tuple[int, ...]]] = {Decimal(0): (1, ())}
    for i, part in enumerate(parts):
        for total, (number, chosen) in list(ways.items()):
            others, first = ways.get(total + part.counted, (0, (*chosen, i)))
            ways[total + part.counted] = others + number, first
        if len(ways) > MOST_WAYS:
            return []
    number, chosen = ways.get(difference, (0, ()))
    return [parts[i] for i in chosen] if number == 1 else []


def _story_of_sum(parts: Sequence[_Part], inputs: int, by: str, facts: Facts, outputs: Sequence[str]) -> Row:
    """Return the story of the first of the inputs that make a difference."""
    first = min(parts, key=lambda part: (part.of_key["partition"], part.of_key["offset"]))
    story = Story(first.of_key, facts, outputs)
    fetches, commits, _ = _of_writers(first.seen, facts, outputs)
    ending = ""
    if first.cause == "state_lost":
        story.fetch(fetches[-1], f"fetched by {fetches[-1]['instance']}")
        story.end(fetches[-1]["instance"], fetches[-1]["answered_us"])
    elif first.cause in TWICE:
        ending = _duplicate(story, fetches, commits, replace(first.seen, writes=[]), "")[0]
    else:
        ending = _missing(story, fetches, commits, first.seen)[0]
    kinds = {part.cause in TWICE for part in parts}
    what = {True: "are in it twice", False: "are not in it"}
    are = what[kinds.pop()] if len(kinds) == 1 else "are in it twice or not at all"
    place = f"{story.finding['topic']}/{story.finding['partition']} offset {story.finding['offset']:,}"
    why = f"{len(parts):,} of its {inputs:,} inputs {are}, which makes {by}; the first is {place}"
    cause = first.cause if len({part.cause for part in parts}) == 1 else ""
    return story.result(ending, cause) | {"why": why}


def _stopped(facts: Facts) -> str:
    """Return why the application came to no end with an input, if its instances ended or its tasks failed."""
    if facts.keeps_ending:
        return "keeps_ending"
    return "left_off" if facts.left_off else "task_failed" if facts.all_failed else ""


def _missing(story: Story, fetches: Sequence[Row], commits: Sequence[Row], seen: Seen) -> tuple[str, str]:
    """Return how the sentence ends, and the cause."""
    beyond = seen.beyond
    past = _past(story.facts, commits, fetches)
    since_us = fetches[-1]["answered_us"] if fetches else 0
    if story.facts.certain and (change := story.facts.change(story.finding, since_us, _first_us(past), past=True)):
        if fetches:
            story.all_fetches(fetches)
            story.end(fetches[-1]["instance"], since_us)
        story.change(change)
        return f"no member fetched it{' again' if fetches else ''}", "set_past"
    if not fetches:
        if story.facts.elsewhere and story.finding.get("effect") in story.facts.outside:
            return UNFETCHED, _stopped(story.facts)
        if not story.facts.certain:
            return UNFETCHED, ""
        if past:
            story.commit(past)
        if beyond:
            story.fetch(beyond, f"{beyond['instance']} read on from offset {beyond['asked_offset']:,}")
        return "no member fetched it", "skipped" if past or beyond else _stopped(story.facts) or "unread"
    if past is None:
        last = fetches[-1]
        story.all_fetches(fetches)
        if rejected := next((row for row in reversed(seen.returned) if row["type"] == REJECT), None):
            story.commit(rejected, f"rejected by {rejected['instance']}")
            return "", "rejected"
        if (last.get("delivery_count") or 0) >= story.facts.deliveries:
            story.end(last["instance"], last["answered_us"])
            return f"that was delivery {last['delivery_count']} of it", "given_up"
        if last.get("made"):
            return f"{CHANGED}, and no commit passed it", _altered(story.facts)
        end = story.end(last["instance"], last["answered_us"])
        if end and (began := _own_place(story.facts, seen, fetches, end)):
            story.fetch(began, f"{began['instance']} read on from offset {began['asked_offset']:,}")
            return "no member fetched it again", "own_place"
        none = "nobody accepted it" if is_shared(last) else "no commit passed it"
        ending = "no member fetched it again" if end else none
        undone = "task_failed" if app_of(last["instance"]) in story.facts.failed_tasks else "unfinished"
        return ending, _stopped(story.facts) or undone
    instance, at_us = past["instance"], past["asked_us"]
    life = story.facts.life(instance, at_us)
    own = [r for r in fetches if story.facts.same(r, life, instance) and r["answered_us"] <= at_us]
    again = [r for r in fetches if r["answered_us"] > at_us]
    story.all_fetches([*(own[-1:] or fetches[:1]), *again])
    story.commit(past)
    if not own:
        for row in seen.begins:  # before it commits: where the group had no offset, and its place was chosen
            if story.facts.same(row, life, instance) and row["asked_us"] < at_us:
                story.fetch(row, f"{instance} read on from offset {row['asked_offset']:,}")
                return "no member fetched it again", "skipped"
        return f"{instance} is not seen to have fetched it", "not_owner"
    if own[-1].get("made"):
        return CHANGED, _altered(story.facts)
    if again:
        return "its effect is missing after that too", "passed_over"
    end = story.facts.end(instance, at_us)
    later = [r for r in commits if r["instance"] == instance and r["asked_us"] > at_us and r["offset"] > past["offset"]]
    later = [r for r in later if r["state"] == "ok" and (end is None or r["asked_us"] < end.end_us)]
    until_us = later[0]["asked_us"] if later else None
    failed = [
        r
        for r in story.facts.failed_sends(story.outputs, instance)
        if own[-1]["answered_us"] <= r["asked_us"] and (until_us is None or r["asked_us"] <= until_us)
    ]
    if failed and (later or end is None):  # else its end explains it as well
        story.write(failed[-1], f"a send of it to {failed[-1]['topic']} failed ({error(failed[-1]['error'])})")
        return "it went on", "send_failed"
    replaced = story.facts.replaced.get(story.finding.get("effect", ""))
    if replaced and past["state"] == "ok" and past["answered_us"] <= replaced.at_us and (later or end is None):
        story.replace(replaced)
        return f"{replaced.standby} lacks its effect", "failed_over"
    if later:
        story.commit(later[0], f"it committed on to {later[0]['offset']:,}")
    if end is None:
        return "it was not interrupted", "passed_over"
    story.end(instance, at_us)
    return "no member fetched it again", "commit_first_or_passed_over" if later else "commit_first"


def _own_place(facts: Facts, seen: Seen, fetches: Sequence[Row], end: Life) -> Row | None:
    """Return the first fetch from behind an input in an incarnation that never fetched it, after the end of another.

    Without a commit past the input, its place is from elsewhere than the group.
    """
    if is_shared(fetches[-1]):
        return None
    for row in seen.begins:
        life = facts.life(row["instance"], row["asked_us"])
        if app_of(row["instance"]) != app_of(end.instance) or life is None or row["asked_us"] < (end.end_us or 0):
            continue
        if not any(facts.same(fetch, life, row["instance"]) for fetch in fetches):
            return row
    return None


def _first_us(past: Row | None) -> float:
    return past["asked_us"] if past else math.inf


def _past(facts: Facts, commits: Sequence[Row], fetches: Sequence[Row]) -> Row | None:
    """Return the first commit past the input: acknowledged, else without an answer: it may be in force.

    It is in force if an incarnation that never fetched the input commits later: that one began behind the input.
    """
    acked = next((row for row in commits if row["state"] == "ok"), None)
    unanswered = next((row for row in commits if row["state"] == "open"), None)
    if acked is None or unanswered is None or unanswered["asked_us"] > acked["asked_us"]:
        return acked or unanswered
    lives = {(row["instance"], facts.life(row["instance"], row["answered_us"])) for row in fetches}

    def fetched(commit: Row) -> bool:
        return (commit["instance"], facts.life(commit["instance"], commit["asked_us"])) in lives

    return unanswered if fetched(unanswered) and not fetched(acked) else acked


def _duplicate(
    story: Story,
    fetches: Sequence[Row],
    commits: Sequence[Row],
    seen: Seen,
    no_writes: str = "; its effects are not seen on the wire",
) -> tuple[str, str]:
    """Return how the sentence ends, and the cause."""
    writes = seen.writes
    if not fetches:
        return UNFETCHED, ""
    first, second = _pair(story.facts, fetches, writes)
    story.fetch(first, f"fetched by {first['instance']}")
    for n, write in enumerate(writes[:2]):
        how = "its effect was acknowledged" if write["outcome"] == "ok" else "its effect was sent, and not acknowledged"
        story.write(write, "" if n else how)
    unseen = "" if writes else no_writes
    if second is None:
        if not story.facts.certain:
            return f"no other fetch of it is seen{unseen}", ""
        alone = any(LEFT in where for where in story.finding["places"][:-1])
        again = "called_again" if alone else "done_twice"
        return f"no member fetched it again{unseen}", "sent_twice" if story.outputs else again
    instance, from_us, to_us = first["instance"], first["answered_us"], second["answered_us"]
    if second.get("made") and (second["instance"], to_us) == (instance, from_us):
        return f"no other answer had it{unseen}", "given_twice"
    between = [r for r in commits if from_us <= r["asked_us"] < to_us]
    again = f"fetched again by {second['instance']}"
    again += f" from {second['asked_offset']:,}" if second["asked_offset"] is not None else ""
    story.fetch(second, again)
    if kept := next((r for r in between if r["state"] == "ok"), None):
        story.commit(kept)
        if change := story.facts.change(story.finding, kept["asked_us"], to_us, past=False):
            story.change(change)
            return "", "set_back"
        moved = story.facts.handed_over(first, kept, second)
        again = " again" if kept["instance"] == second["instance"] else ""
        return (f"{second['instance']} had got the partition{again} by then", "moved") if moved else ("", "went_back")
    for row in (r for r in between if r["instance"] == instance):
        ends = {"refused": f"refused ({error(row['error'])})", "open": "sent, and not answered"}
        what = "its acceptance" if is_shared(row) else "the commit past it"
        story.commit(row, f"{what} was {ends.get(row['state'], 'aborted')}")
        break
    if released := next((r for r in seen.returned if from_us <= r["asked_us"] < to_us), None):
        story.commit(released, f"released by {released['instance']}")
        return unseen.removeprefix("; "), "released"
    end = story.facts.end(instance, from_us)
    if end and end.end_us is not None and end.end_us <= to_us:
        story.end(instance, from_us, " before a commit past it" if not between else "")
        return unseen.removeprefix("; "), "not_idempotent"
    left = next((r for r in story.facts.left.get(instance, ()) if from_us <= r["asked_us"] <= to_us), None)
    if left:
        story.leave(left)
    passed = "nobody had accepted it" if is_shared(second) else "no commit had passed it"
    itself = "left_group" if left else "repeated"
    return f"{passed}{unseen}", itself if second["instance"] == instance else "moved"


def _late(story: Story, finding: Row, fetches: Sequence[Row], seen: Seen) -> tuple[str, str]:
    """Return how the sentence ends, and the cause: the longest of the waits before the effect."""
    done_us, acked_us, holder = finding["at_us"], finding["acked_us"], seen.holder
    before = [r for r in fetches if r["answered_us"] <= done_us]
    if not before:
        return UNFETCHED, ""
    first, last = before[0], before[-1]
    waits = {"fetch": first["answered_us"] - acked_us, "again": last["answered_us"] - first["answered_us"]}
    waits["work"] = done_us - last["answered_us"]
    longest = max(waits, key=lambda name: waits[name])
    owner, since_us = (
        (holder, holder["answered_us"]) if holder and longest == "fetch" else (first, first["answered_us"])
    )
    end = story.facts.end(owner["instance"], since_us)
    until_us = last["answered_us"] if longest == "again" else first["answered_us"]
    ended = end is not None and end.end_us is not None and end.end_us <= until_us
    if ended and longest == "fetch":
        story.end(owner["instance"], since_us, ", the owner of its partition,")
    story.fetch(first, f"fetched by {first['instance']}")
    if last is not first:
        if ended and longest == "again":
            story.end(owner["instance"], since_us)
        story.fetch(last, f"fetched again by {last['instance']}")
    for write in seen.writes[:1]:
        story.write(write, "its effect was acknowledged" if write["outcome"] == "ok" else "its effect was sent")
    if longest == "work":
        return f"{waits['work'] / 1e6:,.1f} s passed between its fetch and its effect", "late_work"
    wait = f"{waits[longest] / 1e6:,.1f} s passed before its {'last fetch' if longest == 'again' else 'fetch'}"
    if ended:
        return wait, "late_down"
    moved = owner["instance"] != (last if longest == "again" else first)["instance"]
    return wait, "late_moved" if moved else "repeated" if longest == "again" else "late_behind"


def _wrong(story: Story, finding: Row, fetches: Sequence[Row], writes: Sequence[Row]) -> tuple[str, str]:
    """Return how the sentence ends, and the cause."""
    write = writes[-1] if writes else None
    until_us = write["asked_us"] if write else max((at for at in finding["times_us"] or () if at), default=None)
    own = [r for r in fetches if until_us is None or r["answered_us"] <= until_us]
    own = [r for r in own if write is None or r["instance"] == write["instance"]] or own
    if not own:
        return UNFETCHED, ""
    story.fetch(own[-1], f"fetched by {own[-1]['instance']}")
    if write:
        story.write(write, "its effect was acknowledged" if write["outcome"] == "ok" else "its effect was sent")
    if any(r.get("made") for r in own):
        return CHANGED, "altered"
    cause = "miscopied" if finding["effect"] in story.facts.copies else "miscalculated"
    return "the fetched record is the one in the log", cause


def _unexpected(story: Story, finding: Row, fetches: Sequence[Row], writes: Sequence[Row]) -> tuple[str, str]:
    """Return how the sentence ends, and the cause."""
    for write in writes[:1]:
        own = [r for r in fetches if r["instance"] == write["instance"] and r["answered_us"] <= write["asked_us"]]
        fetches = own or fetches
    if fetches:
        story.fetch(fetches[-1], f"fetched by {fetches[-1]['instance']}")
    for write in writes[:1]:
        story.write(write, f"its effect was written by {write['instance']}")
        changed_us = story.facts.changed.get(write["instance"])
        if changed_us is not None and changed_us <= write["asked_us"]:
            return f"a fault of the run had changed records that {write['instance']} fetched", "altered"
    if fetches:
        aborted = fetches[-1].get("isolation") == 0 and "in the log" not in finding["why"]
        return ("it was fetched as read_uncommitted", "read_uncommitted") if aborted else ("", "")
    if writes:
        return "", "no_input"
    if not story.outputs or not story.facts.certain:
        return "its write is not seen on the wire", ""
    return f"no application of the run wrote it to {' or '.join(story.outputs)}", "stranger"


def _pair(facts: Facts, fetches: Sequence[Row], writes: Sequence[Row]) -> tuple[Row, Row | None]:
    """Return the fetches behind two effects: before each write, by the same incarnation; else the first two."""
    before = [
        [
            row
            for row in fetches
            if row["answered_us"] <= write["asked_us"]
            and facts.same(row, facts.life(write["instance"], write["asked_us"]), write["instance"])
        ]
        for write in writes[:2]
    ]
    if len(before) == 2 and all(before):
        first, second = (rows[-1] for rows in before)
        if first is not second:
            return first, second
        return (before[0][-2], first) if len(before[0]) > 1 else (first, None)
    first, later = fetches[0], fetches[1:]
    life = facts.life(first["instance"], first["answered_us"])
    return first, next((r for r in later if not facts.same(r, life, first["instance"])), next(iter(later), None))
