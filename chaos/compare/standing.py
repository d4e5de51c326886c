"""A comparison that goes on: a round, a report, a pause, until somebody ends it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from chaos.compare.folder import Listener, judge
from chaos.compare.model import EXIT_CODES, Comparison, ComparisonResult
from chaos.compare.rounds import Rounds
from chaos.ending import Ending
from chaos.errors import INTERRUPTED, AftershockError
from chaos.run.directory import Run, read_json


@dataclass(frozen=True)
class Reports:
    """Where a standing comparison says what it does. line: of a result. say: about itself. doing: what goes on."""

    line: Callable[[str], None]
    say: Callable[[str], None]
    doing: Callable[[str], None]
    listen: Listener


def stand(
    run: Run, ask: Callable[[], Comparison], every_s: float, most: int | None, ending: Ending, to: Reports
) -> int:
    """Compare round by round, and return the exit code of the result of all rounds.

    ask: returns what is compared in a round, with the topics that are there. most: rounds of this call; None: until
    the end is asked for. A round without a result is compared in the next one. Raises `AftershockError` if the first
    one has none.
    """
    began, done, rounds = time.monotonic(), 0, Rounds(run)
    while True:
        try:
            ask().save(run)
            judge(run, to.listen)
        except AftershockError as e:
            if not rounds.numbers:
                raise
            to.say(f"this round has no result, the next one compares what it left out: {e}")
        else:
            _report(run, rounds, to)
        done += 1
        if ending.asked or done == most:
            break
        following = began + max(1, math.ceil((time.monotonic() - began) / every_s)) * every_s
        at = time.strftime("%H:%M:%S UTC", time.gmtime(time.time() + following - time.monotonic()))
        to.say(f"the next round begins at {at}; Ctrl-C ends the comparison")
        to.doing(f"the next round begins at {at}")
        if ending.wait(max(0.0, following - time.monotonic())):
            break
    return EXIT_CODES[_so_far(run).verdict] if run.result.exists() else INTERRUPTED


def _report(run: Run, rounds: Rounds, to: Reports) -> None:
    """Say what the last round found, and what all of them did."""
    number = rounds.numbers[-1]
    result = rounds.result(number)
    to.line(f"round {number} at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(result.created_us / 1e6))}")
    for topic in result.topics:
        for line in topic.lines():
            to.line(f"  {line}")
    to.line(f"so far {_so_far(run).line()}")


def _so_far(run: Run) -> ComparisonResult:
    return ComparisonResult.model_validate(read_json(run.result, "what was found"))
