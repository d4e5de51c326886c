"""The parts of an examination: an error of one is named, decides the verdict, and leaves the others."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal

import pytest

from chaos.errors import UsageError
from chaos.forensics import commits, page, session
from chaos.forensics.model import (
    KINDS,
    MOST_NAMED,
    CommitRow,
    Finding,
    Findings,
    Group,
    Place,
    Result,
    Topic,
    Transaction,
    UnderReplicated,
)
from chaos.forensics.session import Asked, Examination
from chaos.kafka.client import GroupState
from chaos.kafka.metadata import Metadata, PartitionState
from chaos.kafka.offsets_log import OFFSETS_TOPIC, UnreadableError
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Security
from tests.support.axe import violations
from tests.support.browser import Browser

OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)


class Silent:
    """A view that shows nothing."""

    def doing(self, message: str) -> None: ...

    def count(self, what: str, done: int, total: int) -> None: ...


class Brokers:
    """A cluster with one group, which has committed 7 on orders/0, and with an end of 9."""

    topics = (OFFSETS, TopicPartition("orders", 0))
    groups = ("billing",)
    leader = 1

    def __init__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    def metadata(self) -> Metadata:
        state = PartitionState(self.leader, 0, (1,), (1,))
        return Metadata({1: ("h", 1)}, dict.fromkeys(self.topics, state), 1, "id", {})

    def offsets_from(self, partitions: list[TopicPartition], _: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def start_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 9)

    def stable_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return dict.fromkeys(partitions, (9, 9))

    def supports(self, *_: object) -> bool:
        return False

    def group(self, name: str) -> GroupState:
        return GroupState("Empty" if name in self.groups else "Dead", 1, ())

    def committed_or_none(self, name: str, _: object) -> dict[TopicPartition, int]:
        return {TopicPartition("orders", 0): 7} if name in self.groups else {}


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> type[Brokers]:
    class Mine(Brokers):
        pass

    def refused(*_: object, **__: object) -> None:
        raise UnreadableError("the user may not read it")

    monkeypatch.setattr(session, "Kafka", Mine)
    monkeypatch.setattr(session.transactions, "limits", lambda _: (True, None))
    monkeypatch.setattr(session, "list_groups", lambda *_: list(Mine.groups))
    monkeypatch.setattr(commits, "fetch", refused)
    return Mine


def examined(brokers: type[Brokers], **asked: Any) -> Result:
    wanted = Asked("h:1", Security(), "forensics", **asked)
    examination = Examination(wanted, brokers().metadata(), Silent())
    examination.examine(io.StringIO(), [])
    return examination.result


def test_a_log_of_commits_that_may_not_be_read_is_named_and_lag_is_still_there(brokers: type[Brokers]) -> None:
    result = examined(brokers)
    assert result.problems[0] == f"commits in {OFFSETS_TOPIC}/0: the user may not read it"
    assert [(g.name, g.lag) for g in result.groups] == [("billing", 2)]
    assert result.verdict == "incomplete"
    assert "nothing was found so far" in result.sentence


def test_one_reason_is_named_once_for_all_its_partitions(brokers: type[Brokers]) -> None:
    brokers.topics = (*Brokers.topics, TopicPartition(OFFSETS_TOPIC, 1), TopicPartition(OFFSETS_TOPIC, 2))
    problems = [p for p in examined(brokers).problems if p.startswith("commits")]
    assert problems == [f"commits in {OFFSETS_TOPIC}/0 and 2 more partitions: the user may not read it"]


def test_a_partition_without_a_leader_is_not_waited_for(brokers: type[Brokers]) -> None:
    brokers.leader = -1
    assert examined(brokers).problems[0] == f"commits in {OFFSETS_TOPIC}/0: it has no leader"


def test_a_partition_of_a_topic_that_does_not_answer_is_a_problem(
    brokers: type[Brokers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "stable_offsets", lambda *_: {})
    problems = examined(brokers, topics=["orders"]).problems
    assert problems[-1] == "duplicates in orders: orders/0 was not read: its leader does not answer"


def test_a_log_of_commits_that_is_not_listed_is_named(brokers: type[Brokers]) -> None:
    brokers.topics = (TopicPartition("orders", 0),)
    assert examined(brokers).problems[0].startswith(f"commits: the brokers list no {OFFSETS_TOPIC}: ")


def test_a_cluster_without_an_authorizer_hides_no_log_of_commits(
    brokers: type[Brokers], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.topics = (TopicPartition("orders", 0),)
    monkeypatch.setattr(session.transactions, "limits", lambda _: (False, None))
    result = examined(brokers)
    assert not [problem for problem in result.problems if problem.startswith("commits")]
    assert f"there is no {OFFSETS_TOPIC}: no group has committed yet" in result.notes


def test_groups_that_are_not_listed_are_a_problem(brokers: type[Brokers], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "list_groups", lambda *_: None)
    assert "lag: a broker does not list its groups" in examined(brokers).problems


def test_an_unknown_group_is_refused(brokers: type[Brokers], monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_: object, groups: list[str]) -> None:
        raise UsageError(f"the cluster has no group {groups[0]!r}")

    monkeypatch.setattr(session, "check_groups", check)
    with pytest.raises(UsageError, match="no group 'biling'"):
        examined(brokers, groups=["biling"])


def test_an_interrupted_examination_keeps_what_it_has(brokers: type[Brokers], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session.transactions, "ask", interrupted)
    result = examined(brokers)
    assert (result.interrupted, result.verdict) == (True, "incomplete")
    assert [g.name for g in result.groups] == ["billing"]
    assert result.notes[0].startswith("interrupted: ")


def test_a_finding_decides_although_a_part_was_not_read() -> None:
    result = Result(cluster="id", made_us=0, since_us=None, command="", problems=["lag: no answer"])
    result.findings.add(Finding(kind="rewind", where="billing on orders/0", at_us=1, words="fell"))
    result.decide()
    assert (result.verdict, result.sentence) == (
        "found",
        "1 rewind; seen: no commit, record or transaction; 1 part could not be read",
    )
    assert next(iter(result.lines())) == f"found: {result.sentence}"


def test_nothing_found_needs_that_everything_was_read() -> None:
    result = Result(cluster="id", made_us=0, since_us=None, command="")
    result.decide()
    assert result.verdict == "nothing found"


def test_several_of_each_kind_have_a_plural() -> None:
    result = Result(cluster="id", made_us=0, since_us=None, command="")
    for kind in KINDS:
        result.findings.add(Finding(kind=kind, where="w", at_us=1, words=""))
        result.findings.add(Finding(kind=kind, where="w", at_us=1, words=""))
    result.decide()
    assert result.sentence.startswith("2 rewinds, 2 unusual steps, 2 out-of-range offsets, 2 removed offsets, ")
    assert not [word for word in result.sentence.split(";")[0].split(", ") if not word.endswith("s")]


def test_all_findings_are_counted_and_the_first_are_named() -> None:
    findings = Findings()
    for n in range(MOST_NAMED + 5):
        findings.add(Finding(kind="rewind", where="w", at_us=n, words=""))
    assert findings.counts == {"rewind": MOST_NAMED + 5}
    assert len(findings.of("rewind")) == MOST_NAMED


def everything(name: str) -> Result:
    """Return a result with all that a page can show, and a foreign text at each place."""
    result = Result(cluster=name, made_us=0, since_us=None, command="", notes=[name], problems=[name])
    row = CommitRow(at_us=1, offset=3, metadata=name, who=name, place="p@1")
    places = [Place(topic="orders", partition=0, commits=3, offset=3, end=12_345, found=["rewind"], rows=[row])]
    result.groups = [Group(name=name, state="Empty", places=[*places, Place(topic="orders", partition=1)])]
    states: tuple[Literal["open", "hanging", "undecided"], ...] = ("open", "hanging", "undecided")
    result.transactions = [Transaction(state=s, transactional_id=name, producer_id=1, words=name) for s in states]
    result.topics = [Topic(name=name, records=3)]
    result.replicas = [UnderReplicated(partition="orders/0", from_us=1, until_us=None, fewest=[1], missing=[2, 3])]
    for kind in KINDS:
        result.findings.add(Finding(kind=kind, where=name, at_us=None, words=name))
    result.decide()
    return result


def test_the_page_shows_each_kind_and_escapes_foreign_text() -> None:
    shown = page.render(everything("<script>alert(1)</script>"))
    assert "<script>alert" not in shown
    for kind, (title, meaning) in KINDS.items():
        assert f'id="{kind}"' in shown
        assert title in shown
        assert meaning.split(":")[0] in shown


@pytest.mark.browser
def test_the_page_is_accessible(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page.render(everything("billing")), encoding="utf-8")
    browser.open(tmp_path / "report.html")
    assert violations(browser) == []
    assert browser.complaints == []
