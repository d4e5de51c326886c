"""A second audit, in plain Python over the rows of one small history: slow, and plain enough to be read as the rules.

It is written from DESIGN ("exact meanings of the checks") and shares no code with `checks.audit`. `facts`
is what goes in and comes out, `epochs` and `starts` who held what from where, `writing`, `sending`, `reading`,
`processing`, `counting`, `commits`, `places`, `lost_offsets` and `sharing` the checks.

It judges what the audit judges by rows, and the kinds of `JUDGED_TWICE`. The other kinds are decided on small tables by
rules that are plain Python already; the stories say what these find.
"""

from __future__ import annotations

from chaos.scenario.model import Scenario
from tests.checks.audit.oracle.commits import judge_commits
from tests.checks.audit.oracle.counting import judge_counts
from tests.checks.audit.oracle.epochs import reading_of
from tests.checks.audit.oracle.facts import Case, Finding, Judgement, Row, Rows
from tests.checks.audit.oracle.lost_offsets import find_lost_offsets, judge_lost_offsets
from tests.checks.audit.oracle.places import judge_places
from tests.checks.audit.oracle.processing import judge_processing
from tests.checks.audit.oracle.reading import count_examined, judge_reading
from tests.checks.audit.oracle.sending import judge_sending
from tests.checks.audit.oracle.sharing import judge_sharing
from tests.checks.audit.oracle.starts import commits_of, judge_starts
from tests.checks.audit.oracle.writing import judge_writing

JUDGED_TWICE = frozenset({"nonmonotonic_poll", "expired_commit", "lost_commit"})
"""Kinds that the oracle judges although their rules see the run as a whole: the first counts what one pass over rows
kept, and several observations together decide the others."""

__all__ = ["JUDGED_TWICE", "Finding", "Judgement", "Row", "Rows", "judge"]


def judge(rows: Rows, scenario: Scenario, run: str) -> Judgement:
    """Everything that is wrong with a history. run: the token that the run's records carry."""
    case, verdict = Case.of(rows, scenario, run), Judgement()
    verdict.undecided.update(case.lives.undecided)
    judge_writing(case, verdict)
    judge_sending(case, scenario, verdict)
    reading = reading_of(case)
    commits = commits_of(case, reading)
    find_lost_offsets(case, reading, commits)
    known = judge_starts(case, reading, commits)
    judge_reading(case, reading, commits, verdict)
    judge_processing(case, scenario, reading, commits, known, verdict)
    judge_counts(case, scenario, reading, verdict)
    judge_commits(case, reading, commits, verdict)
    judge_places(case, reading, verdict)
    judge_lost_offsets(case, verdict)
    judge_sharing(case, scenario, verdict)
    count_examined(case, reading, verdict)
    return verdict
