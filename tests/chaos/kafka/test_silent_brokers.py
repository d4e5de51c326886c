"""Brokers that did not answer: changes of topics go to others, where any broker takes them."""

from types import SimpleNamespace

import pytest

from chaos.kafka import brokers
from chaos.kafka.admin import any_broker
from chaos.kafka.brokers import SHUN_S, Brokers


def cluster(*silent, kraft=True):
    metadata = SimpleNamespace(controller=3, brokers={1: None, 2: None, 3: None})
    return SimpleNamespace(
        metadata=lambda: metadata, is_silent=lambda broker: broker in silent, supports=lambda api: kraft
    )


@pytest.mark.parametrize(
    ("silent", "kraft", "asked"),
    [((), True, 3), ((1,), True, 3), ((3,), True, 1), ((1, 3), True, 2), ((1, 2, 3), True, None), ((3,), False, 3)],
)
def test_a_change_goes_to_a_broker_that_answers_and_with_zookeeper_to_the_controller(silent, kraft, asked):
    assert any_broker(cluster(*silent, kraft=kraft)) == asked


def test_a_broker_is_silent_for_some_time_after_a_request_without_an_answer(monkeypatch):
    now, answers = [100.0], {1: "answer", 2: None}
    monkeypatch.setattr(brokers, "time", SimpleNamespace(monotonic=lambda: now[0]))
    asked = Brokers("one:1,two:2")
    asked._brokers = {1: ("one", 1), 2: ("two", 2)}

    def connection(broker):
        def ask(request, timeout_s):
            if answers[broker] is None:
                raise TimeoutError
            return answers[broker]

        return SimpleNamespace(ask=ask)

    asked._connections = {("one", 1): connection(1), ("two", 2): connection(2)}
    assert (asked.ask(1, "request"), asked.ask(2, "request")) == ("answer", None)
    assert (asked.is_silent(1), asked.is_silent(2), asked.is_silent(9)) == (False, True, False)
    now[0] += SHUN_S
    assert not asked.is_silent(2)
