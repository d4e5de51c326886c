"""Findings name the client library of their clients where a scenario has more than the default one."""

from typing import Any
from unittest.mock import Mock

from chaos.scenario.load import parse
from checks.audit.output.totals import _libraries
from checks.audit.rules.rule import RunData
from checks.audit.rules.writes import _explain_duplicate


def run(client: str, *lifecycle: dict[str, Any]) -> RunData:
    text = f"""
title: t
topics: [{{name: orders}}]
producers: [{{name: shop, topic: orders}}, {{name: till, topic: orders, client: {client}}}]
consumers: [{{mode: assign, name: dirty, topics: [orders]}}]
"""
    nothing: Any = Mock()
    return RunData(parse(text, "mine.yaml"), [], nothing, {}, nothing, [], nothing, lifecycle)


def test_a_finding_names_the_library_and_release_of_its_clients() -> None:
    java = run("java:3.9.2")
    assert _libraries({"producer": "till/1", "consumer": None}, java) == "till/1: kafka-clients 3.9.2"
    both = "shop/1: confluent-kafka as installed, dirty/1: confluent-kafka as installed"
    assert _libraries({"producer": "shop/1", "consumer": "dirty/1"}, java) == both
    assert _libraries({"producer": "gone/1", "consumer": None}, java) == ""


def test_the_release_is_the_one_that_the_client_reported() -> None:
    started = {"client": "shop/1", "incarnation": 1, "event": "started", "at_us": 1}
    stopped = started | {"event": "stopped", "detail": "{}", "at_us": 2}
    later = started | {"detail": '{"librdkafka": "2.9.0", "confluent_kafka": "2.9.1"}', "at_us": 1}
    java = run("java:3.9.2", started | {"detail": None, "at_us": 0}, later, stopped)
    assert _libraries({"producer": "shop/1", "consumer": "till/1"}, java) == (
        "shop/1: confluent-kafka 2.9.1, till/1: kafka-clients 3.9.2"
    )


def test_a_finding_of_a_run_with_the_default_library_only_names_none() -> None:
    assert _libraries({"producer": "shop/1", "consumer": None}, run("confluent")) == ""


COPY = {"topic": "orders", "partition": 3, "offset": 9, "producer": "shop/1", "incarnation": 1}
FIRST = {"first_topic": "orders", "first_partition": 3, "first_offset": 4, "first_incarnation": 1}
BUG = "librdkafka takes a new epoch when records time out, or a partition has an error (its issue 4953)"


def batch(at: int, producer_id: int = 7, epoch: int = 0, sequence: int = 4) -> dict[str, Any]:
    place = {"topic": "orders", "partition": 3, "base_offset": at, "last_offset": at}
    return place | {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}


def explained(*batches: dict[str, Any], producer: str = "shop/1", flight: int = 5) -> tuple[str, dict[str, Any]]:
    """Return the sentence and the evidence of a copy. flight: the requests in flight of the producer."""
    text = f"""
title: t
topics: [{{name: orders}}]
producers:
  - {{name: shop, topic: orders, config: {{enable.idempotence: true, max.in.flight.requests.per.connection: {flight}}}}}
  - {{name: till, topic: orders, client: java}}
"""
    nothing: Any = Mock()
    found = RunData(parse(text, "mine.yaml"), [], nothing, {}, nothing, [], nothing, (), batches)
    evidence = dict(FIRST)
    return _explain_duplicate(COPY | {"producer": producer}, evidence, found), evidence


def test_a_copy_in_a_new_epoch_of_librdkafka_names_its_bug_and_what_avoids_it() -> None:
    sentence, evidence = explained(batch(4), batch(9, epoch=1, sequence=0))
    assert sentence.startswith(
        "written at orders/3 offset 4 with sequence number 4 of producer epoch 0, and again at orders/3 offset 9 with "
        "sequence number 0 of producer epoch 1: "
    )
    assert sentence.endswith(f"{BUG}, which max.in.flight.requests.per.connection=1 avoids")
    known = {"first_producer_id": 7, "first_producer_epoch": 0, "first_sequence": 4}
    assert evidence == FIRST | known | {"producer_id": 7, "producer_epoch": 1, "sequence": 0}
    assert explained(batch(4), batch(9, epoch=1), flight=1)[0].endswith(BUG)  # it has that setting already


def test_a_copy_is_only_ascribed_to_that_bug_if_the_log_shows_it() -> None:
    for batches, producer, said in (
        ((batch(4), batch(9, sequence=5)), "shop/1", "the client sent it as two records"),
        ((batch(4), batch(9)), "shop/1", "the broker has appended the same sequence number twice"),
        ((batch(4), batch(9, producer_id=8)), "shop/1", "the producer took another id, 8 after 7"),
        ((batch(4), batch(9, epoch=1)), "till/1", "no broker recognizes it"),
        ((batch(4),), "shop/1", "by a retry of the same producer (enable.idempotence=true)"),
        ((), "shop/1", "again at orders/3 offset 9 by a retry of the same producer"),
    ):
        sentence, _ = explained(*batches, producer=producer)
        assert said in sentence and "4953" not in sentence, sentence
