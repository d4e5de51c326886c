import pytest

from chaos.scenario import effect_rules


@pytest.fixture(autouse=True)
def producers_have_ids(monkeypatch):
    monkeypatch.setattr(effect_rules, "has_ids", lambda producer: producer.topic == "orders")
