"""A comparison of all its topics to `result.json`: once, or the next round of one that goes on."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from chaos.compare.model import EXIT_CODES, ComparisonResult, Pair, TopicResult, compared
from chaos.compare.rounds import CHANGED, Reached, Round, Rounds, goes_on, gone, reached_in, so_far, widened
from chaos.run.directory import Run, write_atomically
from chaos.run.events import now_us
from checks.compare.earlier import Earlier
from checks.compare.sides import AnotherLog
from checks.compare.topics import compare_topics, compared_pair
from checks.compare.work import Listener, Work


def compare(run: Run, listener: Listener | None = None) -> int:
    """Compare what the folder asks for, write `result.json`, and return the exit code of the verdict."""
    asked, began, created_us = compared(run.path), time.monotonic(), now_us()
    assert asked is not None
    work = Work(run, asked, listener)
    if asked.every_s is not None:
        return EXIT_CODES[next_round(work).verdict]
    run.result.unlink(missing_ok=True)
    topics = [compare_topics(work, pair) for pair in asked.pairs]
    result = ComparisonResult.of(asked, topics, created_us, time.monotonic() - began)
    write_atomically(run.result, result.model_dump_json(indent=1))
    return EXIT_CODES[result.verdict]


def next_round(work: Work) -> ComparisonResult:
    """Compare what came since the last round; write what was found, and return the result of all rounds."""
    rounds, began, began_us = Rounds(work.run), time.monotonic(), now_us()
    last, folder = rounds.last, rounds.begin()
    number, since_us = (last.number + 1, last.since_us) if last else (1, began_us)
    done = [_next_of(work, pair, rounds, last, folder) for pair in work.asked.pairs]
    reached, topics = [state for state, _ in done], [topic for _, topic in done]
    result = ComparisonResult.of(work.asked, topics, began_us, time.monotonic() - began, number)
    reached += gone(last, reached)
    rounds.complete(folder, Round(number=number, began_us=began_us, since_us=since_us, reached=reached), result)
    whole = [state.so_far for state in reached]
    so_far = ComparisonResult.of(work.asked, whole, since_us, (now_us() - since_us) / 1e6, number)
    write_atomically(work.run.result, so_far.model_dump_json(indent=1))
    return so_far


def _next_of(work: Work, pair: Pair, rounds: Rounds, last: Round | None, folder: Path) -> tuple[Reached, TopicResult]:
    """Compare what came to a pair of topics since the last round; return where it ended, and what was found."""
    into, number = folder / pair.a, last.number + 1 if last else 1
    into.mkdir()
    if pair.compacted:  # each of its records may be a last value
        return _continued(work, pair, None, None, number)
    before, why = reached_in(last, pair), ""
    try:
        if before and goes_on(before, pair):
            state = widened(before, pair)
            return _continued(work, pair, Earlier.of(rounds, state, into), state, number)
        why = CHANGED if before else ""
    except AnotherLog as e:
        why = str(e)
        shutil.rmtree(into)
        into.mkdir()
    note = f"{why}; it is compared from its start again, and earlier rounds have what was found before" if why else ""
    return _continued(work, pair, Earlier.none(pair, into), None, number, note)


def _continued(
    work: Work, pair: Pair, earlier: Earlier | None, before: Reached | None, number: int, note: str = ""
) -> tuple[Reached, TopicResult]:
    """Compare a pair of topics behind what earlier rounds read; None: whole, and once."""
    now, place = compared_pair(work, pair, earlier)
    if note:
        now = now.model_copy(update={"notes": [note, *now.notes]})
    since, found = before.since if before else number, so_far(before, now, work.asked.examples)
    return Reached(**dict(place), since=since, so_far=found), now
